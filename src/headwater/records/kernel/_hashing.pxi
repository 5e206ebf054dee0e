# Kafka's murmur2 hash of keys.

cdef int32_t hash_key(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t multiplier = 0x5BD1E995U
    cdef uint32_t value = 0x9747B28CU ^ <uint32_t>size
    cdef uint32_t word
    cdef Py_ssize_t position = 0
    while size - position >= 4:
        word = <uint32_t>little_endian(data + position, 4) * multiplier
        word = (word ^ word >> 24) * multiplier
        value = value * multiplier ^ word
        position += 4
    if position < size:
        value ^= <uint32_t>little_endian(data + position, size - position)
        value *= multiplier
    value = (value ^ value >> 13) * multiplier
    return <int32_t>(value ^ value >> 15)


def murmur2(data):
    """Return Kafka's murmur2 hash of a key, as a signed 32-bit number."""
    cdef Borrowed source = Borrowed(data)
    return hash_key(source.bytes, source.size)


def murmur2_column(Py_ssize_t row_count, column):
    """Return the hash of every row as 32-bit numbers; 0 for null."""
    cdef ForeignColumn keys = foreign(column)
    cdef const Column* places = &keys.column
    cdef bytearray hashes = PyByteArray_FromStringAndSize(NULL, row_count * sizeof(int32_t))
    cdef int32_t* numbers = <int32_t*>PyByteArray_AS_STRING(hashes)
    cdef Content key
    cdef Py_ssize_t row
    cdef int status = OK
    with nogil:
        for row in range(row_count):
            status = cell(places, row, &key)
            if status != OK:
                break
            numbers[row] = 0 if key.length < 0 else hash_key(key.start, key.length)
    if status != OK:
        raise_status(status)
    return hashes
