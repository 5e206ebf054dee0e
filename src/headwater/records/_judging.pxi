# The header of a client's batch that nothing is wrong with.

cdef enum:
    GZIP = 1
    LZ4 = 3
    ZSTD = 4
    REFUSED_FLAGS = 0x28  # control batches, and timestamps that claim to be append times
    LAST_CODEC = 4


def ordinary_header(buffer, int64_t limit_bytes, int64_t oldest_ms, int64_t newest_ms):
    """The header of a batch that passes every check without being opened, else None."""
    cdef Borrowed source = Borrowed(buffer)
    cdef const uint8_t* at = source.bytes
    cdef Py_ssize_t size = source.size
    cdef int32_t count
    cdef int64_t base_timestamp, max_timestamp
    cdef int codec
    if size < HEADER_BYTES or size > limit_bytes or at[16] != 2:
        return None
    if big_endian(at, 8) or <int64_t><int32_t>big_endian(at + 8, 4) + LENGTH_END != size:
        return None
    count = <int32_t>big_endian(at + 57, 4)
    if count <= 0 or <int32_t>big_endian(at + 23, 4) != count - 1:
        return None
    codec = at[22] & CODEC_MASK
    if at[22] & REFUSED_FLAGS or codec > LAST_CODEC:
        return None
    if not codec:
        if count > (size - HEADER_BYTES) // MIN_RECORD_BYTES:
            return None
    elif not begins_like(codec, at + HEADER_BYTES, size - HEADER_BYTES):
        return None
    base_timestamp = <int64_t>big_endian(at + 27, 8)
    max_timestamp = <int64_t>big_endian(at + 35, 8)
    if not (oldest_ms <= base_timestamp <= newest_ms and oldest_ms <= max_timestamp <= newest_ms):
        return None
    if <int64_t>big_endian(at + 43, 8) >= 0 and <int32_t>big_endian(at + 53, 4) < 0:
        return None
    if not has_right_crc(buffer, at, 0, size):
        return None
    return header_at(at)


cdef bint begins_like(int codec, const uint8_t* at, Py_ssize_t size) noexcept:
    if codec == GZIP:
        return size >= 2 and at[0] == 0x1F and at[1] == 0x8B
    if codec == LZ4:
        return size >= 4 and <uint32_t>big_endian(at, 4) == 0x04224D18
    if codec == ZSTD:
        return size >= 4 and <uint32_t>big_endian(at, 4) == 0x28B52FFD
    return True
