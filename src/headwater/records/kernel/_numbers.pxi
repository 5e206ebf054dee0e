# Varints, fixed-size numbers and copies of short strings.

cdef inline int read_unsigned(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t end, int bits, uint64_t* number
) noexcept nogil:
    """Read a number of 7 bits per byte; its last byte may only have bits that fit."""
    cdef Py_ssize_t at = position[0]
    cdef int shift = 0
    cdef uint64_t byte, result = 0
    while True:
        if at >= end:
            return OVERRUN
        byte = base[at]
        at += 1
        if shift + 7 > bits and (byte >> (bits - shift)) != 0:
            return NUMBER_TOO_LARGE
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    position[0] = at
    number[0] = result
    return OK


cdef inline int read_varint(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t end, int32_t* number
) noexcept nogil:
    cdef uint64_t folded
    cdef int status
    cdef Py_ssize_t at = position[0]
    # Nearly all numbers in records have one or two bytes.
    if at < end and base[at] < 0x80:
        folded = base[at]
        position[0] = at + 1
    elif at + 1 < end and base[at + 1] < 0x80:
        folded = (base[at] & 0x7F) | <uint32_t>base[at + 1] << 7
        position[0] = at + 2
    else:
        status = read_unsigned(base, position, end, 32, &folded)
        if status != OK:
            return status
    number[0] = <int32_t>((<uint32_t>folded >> 1) ^ (0 - (<uint32_t>folded & 1)))
    return OK


cdef inline int read_varlong(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t end, int64_t* number
) noexcept nogil:
    cdef uint64_t folded
    cdef int status
    cdef Py_ssize_t at = position[0]
    if at < end and base[at] < 0x80:
        folded = base[at]
        position[0] = at + 1
    else:
        status = read_unsigned(base, position, end, 64, &folded)
        if status != OK:
            return status
    number[0] = <int64_t>((folded >> 1) ^ (0 - (folded & 1)))
    return OK


cdef inline uint64_t fold(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ (0 - (<uint64_t>number >> 63))


cdef inline Py_ssize_t varint_size(int64_t number) noexcept nogil:
    cdef uint64_t rest = fold(number)
    cdef Py_ssize_t size = 3
    if rest < 0x80:
        return 1
    if rest < 0x4000:
        return 2
    rest >>= 21
    while rest != 0:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* at, int64_t number) noexcept nogil:
    cdef uint64_t rest = fold(number)
    if rest < 0x80:
        at[0] = <uint8_t>rest
        return at + 1
    if rest < 0x4000:
        at[0] = <uint8_t>(rest | 0x80)
        at[1] = <uint8_t>(rest >> 7)
        return at + 2
    while rest > 0x7F:
        at[0] = <uint8_t>(rest | 0x80)
        at += 1
        rest >>= 7
    at[0] = <uint8_t>rest
    return at + 1


cdef inline int64_t add64(int64_t left, int64_t right) noexcept nogil:
    """Add with wrap-around, because signed overflow is undefined in C."""
    return <int64_t>(<uint64_t>left + <uint64_t>right)


cdef inline uint64_t big_endian(const uint8_t* at, int size) noexcept nogil:
    cdef uint64_t number = 0
    cdef int index
    for index in range(size):
        number = number << 8 | at[index]
    return number


cdef inline uint8_t* put_big_endian(uint8_t* at, uint64_t number, int size) noexcept nogil:
    """Write a number; return the position after it."""
    cdef int index
    for index in range(size):
        at[index] = <uint8_t>(number >> (8 * (size - 1 - index)))
    return at + size


cdef enum:
    COPY_SLACK = 32


cdef inline void copy_loosely(void* target, const void* source, Py_ssize_t size) noexcept nogil:
    """Copy in steps of 32 bytes, which is faster than memcpy for the short strings of records.

    Up to 31 bytes more than requested are read and written: both sides must have them.
    """
    cdef char* to = <char*>target
    cdef const char* come = <const char*>source
    if size > 256:
        memcpy(to, come, size)
        return
    while size > 0:
        memcpy(to, come, COPY_SLACK)
        to += COPY_SLACK
        come += COPY_SLACK
        size -= COPY_SLACK


cdef inline void copy(
    void* target, const void* source, Py_ssize_t size, bint has_slack
) noexcept nogil:
    if has_slack:
        copy_loosely(target, source, size)
    else:
        memcpy(target, source, size)
