# Find the parts of a record: the code that looks into untrusted records.

cdef struct Places:
    # Positions of one record's parts in its section; a negative length is null.
    Py_ssize_t start
    Py_ssize_t body
    Py_ssize_t after_timestamp
    Py_ssize_t after_offset
    Py_ssize_t key
    Py_ssize_t value
    Py_ssize_t headers
    Py_ssize_t end
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_length
    int32_t value_length
    int32_t header_count


cdef struct HeaderPlaces:
    Py_ssize_t key
    Py_ssize_t value
    Py_ssize_t end
    int32_t key_length
    int32_t value_length


cdef inline int read_varbytes(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t end, Py_ssize_t* start, int32_t* length
) noexcept nogil:
    cdef int status = read_varint(base, position, end, length)
    if status != OK:
        return status
    start[0] = position[0]
    if length[0] > 0:
        if length[0] > end - position[0]:
            return OVERRUN
        position[0] += length[0]
    return OK


cdef int read_header_at(
    const uint8_t* base, Py_ssize_t position, Py_ssize_t end, HeaderPlaces* header
) noexcept nogil:
    cdef int status = read_varbytes(base, &position, end, &header.key, &header.key_length)
    if status != OK:
        return status
    if header.key_length < 0:
        return HEADER_WITHOUT_KEY
    status = read_varbytes(base, &position, end, &header.value, &header.value_length)
    header.end = position
    return status


cdef inline int read_front(
    const uint8_t* base, Py_ssize_t start, Py_ssize_t limit, Places* record
) noexcept nogil:
    """Read a record up to its headers, and find where they start."""
    cdef int32_t length
    cdef Py_ssize_t position = start, end
    cdef int status = read_varint(base, &position, limit, &length)
    if status != OK:
        return status
    if length < 0 or length > limit - position:
        return OVERRUN
    end = position + length
    record.start = start
    record.body = position
    record.end = end
    position += 1
    status = read_varlong(base, &position, end, &record.timestamp_delta)
    if status != OK:
        return status
    record.after_timestamp = position
    status = read_varint(base, &position, end, &record.offset_delta)
    if status != OK:
        return status
    record.after_offset = position
    status = read_varbytes(base, &position, end, &record.key, &record.key_length)
    if status != OK:
        return status
    status = read_varbytes(base, &position, end, &record.value, &record.value_length)
    if status != OK:
        return status
    status = read_varint(base, &position, end, &record.header_count)
    if status != OK:
        return status
    record.headers = position
    return OK if record.header_count >= 0 else NEGATIVE_HEADERS


cdef int read_record(
    const uint8_t* base, Py_ssize_t start, Py_ssize_t limit, Places* record
) noexcept nogil:
    cdef HeaderPlaces header
    cdef int32_t index
    cdef int status = read_front(base, start, limit, record)
    if status != OK:
        return status
    header.end = record.headers
    for index in range(record.header_count):
        status = read_header_at(base, header.end, record.end, &header)
        if status != OK:
            return status
    return OK if header.end == record.end else WRONG_SIZE


cdef inline int check_count(Py_ssize_t size, Py_ssize_t record_count) noexcept nogil:
    if record_count < 0 or record_count > size // MIN_RECORD_BYTES:
        return TOO_FEW_BYTES
    return OK


cdef int walk(const uint8_t* base, Py_ssize_t size, Py_ssize_t record_count) noexcept nogil:
    """Check the structure of a whole section."""
    cdef Places record
    cdef Py_ssize_t index, position = 0
    cdef int status = check_count(size, record_count)
    if status != OK:
        return status
    for index in range(record_count):
        status = read_record(base, position, size, &record)
        if status != OK:
            return status
        position = record.end
    return OK if position == size else LEFT_OVER


cdef class Borrowed:
    """Foreign buffer, held for the lifetime of this object."""

    cdef Py_buffer view
    cdef bint is_held
    cdef object owner
    cdef const uint8_t* bytes
    cdef Py_ssize_t size

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
        self.is_held = True
        self.owner = source
        self.bytes = <const uint8_t*>self.view.buf
        self.size = self.view.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)
