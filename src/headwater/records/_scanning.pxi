# The headers of batches that lie end to end.

def scan(buffer, Py_ssize_t position, Py_ssize_t limit):
    """The headers of the whole batches in a range, and the position after the last whole one."""
    cdef Borrowed source = Borrowed(buffer)
    cdef list headers = []
    cdef int64_t length
    cdef const uint8_t* at
    if position < 0:
        raise ValueError("a position is not negative")
    limit = min(limit, source.size)
    while limit - position >= HEADER_BYTES:
        at = source.bytes + position
        header = header_at(at)
        length = <int32_t>big_endian(at + 8, 4)
        if (
            at[16] != 2
            or length < MIN_LENGTH
            or <int32_t>big_endian(at + 23, 4) < 0
            or <int32_t>big_endian(at + 57, 4) < 0
        ):
            check_header(header)
        if length + LENGTH_END > limit - position:
            break
        headers.append(header)
        position += <Py_ssize_t>length + LENGTH_END
    return headers, position


cdef object header_at(const uint8_t* at):
    return tuple.__new__(
        BatchHeader,
        (
            <int64_t>big_endian(at, 8),
            <int32_t>big_endian(at + 8, 4),
            <int32_t>big_endian(at + 12, 4),
            <int>(<signed char>at[16]),
            <uint32_t>big_endian(at + 17, 4),
            <int16_t>big_endian(at + 21, 2),
            <int32_t>big_endian(at + 23, 4),
            <int64_t>big_endian(at + 27, 8),
            <int64_t>big_endian(at + 35, 8),
            <int64_t>big_endian(at + 43, 8),
            <int16_t>big_endian(at + 51, 2),
            <int32_t>big_endian(at + 53, 4),
            <int32_t>big_endian(at + 57, 4),
        ),
    )
