# Validate clients' batches and records.

cdef enum:
    GZIP = 1
    LZ4 = 3
    ZSTD = 4
    REJECTED_FLAGS = 0x28  # control batches, and the timestamp type LogAppendTime
    LAST_CODEC = 4
    MAX_UNPACKED_BYTES = 104857600
    NO_TIMESTAMP = -1

# Maximum expansion of each codec: see `codec_limits`.
cdef int64_t[5] MAX_EXPANSION
MAX_EXPANSION[:] = [1, 1032, 22, 255, 32768]

cdef struct Validation:
    bint is_dense
    bint has_null_key
    bint is_in_time
    int64_t max_timestamp


cdef inline int skip_record(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t limit, Places* record
) noexcept nogil:
    """Read the validated fields of a typical record without headers, and skip it.

    Anything else is left to `read_record`: long numbers, headers, and invalid records. At least 16
    bytes are left at the start, of which at most nine are read before the record's own end is
    checked.
    """
    cdef const uint8_t* at = base + position[0]
    cdef const uint8_t* end
    cdef uint32_t number, length
    if limit - position[0] < 16:
        return NEED_ROOM
    number = at[0]
    at += 1
    if number >= 0x80:
        if at[0] >= 0x80:
            return NEED_ROOM
        number = (number & 0x7F) | <uint32_t>at[0] << 7
        at += 1
    end = at + (number >> 1)
    if number & 1 or end > base + limit:
        return NEED_ROOM
    at += 1
    number = at[0]
    at += 1
    if number >= 0x80:
        if at[0] >= 0x80:
            return NEED_ROOM
        number = (number & 0x7F) | <uint32_t>at[0] << 7
        at += 1
    record.timestamp_delta = <int32_t>((number >> 1) ^ (0 - (number & 1)))
    number = at[0]
    at += 1
    if number >= 0x80:
        number = (number & 0x7F) | <uint32_t>at[0] << 7
        at += 1
        if number >= 0x4000:
            if at[0] >= 0x80:
                return NEED_ROOM
            number = (number & 0x3FFF) | <uint32_t>at[0] << 14
            at += 1
    record.offset_delta = <int32_t>((number >> 1) ^ (0 - (number & 1)))
    length = at[0]
    at += 1
    if length >= 0x80:
        return NEED_ROOM
    record.key_length = -1 if length & 1 else <int32_t>(length >> 1)
    if not length & 1:
        at += length >> 1
    # At least the value's length and the header count.
    if end - at < 2:
        return NEED_ROOM
    length = at[0]
    at += 1
    if length >= 0x80:
        if at[0] >= 0x80:
            return NEED_ROOM
        length = (length & 0x7F) | <uint32_t>at[0] << 7
        at += 1
    if not length & 1:
        at += length >> 1
    if at + 1 != end or at[0] != 0:
        return NEED_ROOM
    position[0] = end - base
    return OK


cdef int validate(
    const uint8_t* base,
    Py_ssize_t size,
    Py_ssize_t record_count,
    int64_t base_timestamp,
    int64_t oldest_ms,
    int64_t newest_ms,
    bint needs_keys,
    Validation* validation,
) noexcept nogil:
    """Walk the records of a client's section and summarise them."""
    cdef Places record
    cdef Py_ssize_t index, position = 0
    cdef int64_t timestamp, latest = NO_TIMESTAMP
    cdef bint is_dense = True, has_null_key = False, is_in_time = True
    cdef int status = check_count(size, record_count)
    if status != OK:
        return status
    for index in range(record_count):
        if skip_record(base, &position, size, &record) != OK:
            status = read_record(base, position, size, &record)
            if status != OK:
                return status
            position = record.end
        is_dense &= record.offset_delta == index
        has_null_key |= record.key_length < 0
        timestamp = add64(base_timestamp, record.timestamp_delta)
        if timestamp > latest:
            latest = timestamp
        if (
            (timestamp < oldest_ms or timestamp > newest_ms)
            and timestamp != NO_TIMESTAMP
            and not (needs_keys and record.key_length < 0)
        ):
            is_in_time = False
    validation.is_dense = is_dense
    validation.has_null_key = has_null_key
    validation.is_in_time = is_in_time
    validation.max_timestamp = latest
    return OK if position == size else LEFT_OVER


def validate_records(
    payload,
    Py_ssize_t record_count,
    int64_t base_timestamp,
    int64_t oldest_ms,
    int64_t newest_ms,
    bint needs_keys,
):
    """Walk a client's records, raise if their structure is invalid, and check their content."""
    cdef Borrowed source = Borrowed(payload)
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef Validation validation
    cdef int status
    if size <= SHORT_BYTES:
        status = validate(
            base, size, record_count, base_timestamp, oldest_ms, newest_ms, needs_keys, &validation
        )
    else:
        with nogil:
            status = validate(
                base, size, record_count, base_timestamp, oldest_ms, newest_ms, needs_keys, &validation
            )
    if status != OK:
        raise_status(status)
    return ValidationResult(
        bool(validation.is_dense),
        bool(validation.has_null_key),
        bool(validation.is_in_time),
        validation.max_timestamp,
    )


cdef bint has_ordinary_records(
    const uint8_t* at,
    Py_ssize_t size,
    Py_ssize_t record_count,
    int64_t base_timestamp,
    int64_t max_timestamp,
    int64_t oldest_ms,
    int64_t newest_ms,
) noexcept nogil:
    cdef Validation validation
    if validate(
        at + HEADER_BYTES,
        size - HEADER_BYTES,
        record_count,
        base_timestamp,
        oldest_ms,
        newest_ms,
        False,
        &validation,
    ) != OK:
        return False
    return validation.is_dense and validation.is_in_time and validation.max_timestamp == max_timestamp


def ordinary_header(
    buffer, int64_t limit_bytes, int64_t oldest_ms, int64_t newest_ms, bint validates
):
    """Return the header of a batch that passes every check, including its uncompressed records."""
    cdef Borrowed source = Borrowed(buffer)
    cdef const uint8_t* at = source.bytes
    cdef Py_ssize_t size = source.size
    cdef int32_t count
    cdef int64_t base_timestamp, max_timestamp
    cdef int codec
    cdef bint is_ordinary
    if size < HEADER_BYTES or size > limit_bytes or at[16] != 2:
        return None
    if big_endian(at, 8) or <int64_t><int32_t>big_endian(at + 8, 4) + LENGTH_END != size:
        return None
    count = <int32_t>big_endian(at + 57, 4)
    if count <= 0 or <int32_t>big_endian(at + 23, 4) != count - 1:
        return None
    codec = at[22] & CODEC_MASK
    if at[22] & REJECTED_FLAGS or codec > LAST_CODEC:
        return None
    if count > max_record_count(codec, size - HEADER_BYTES):
        return None
    if codec and not begins_like(codec, at + HEADER_BYTES, size - HEADER_BYTES):
        return None
    base_timestamp = <int64_t>big_endian(at + 27, 8)
    max_timestamp = <int64_t>big_endian(at + 35, 8)
    if not (oldest_ms <= base_timestamp <= newest_ms and oldest_ms <= max_timestamp <= newest_ms):
        return None
    if <int64_t>big_endian(at + 43, 8) >= 0 and <int32_t>big_endian(at + 53, 4) < 0:
        return None
    if codec or not validates:
        return header_at(at) if has_right_crc(buffer, at, 0, size) else None
    if size <= SHORT_BYTES or not CAN_BE_QUICK:
        if not has_right_crc(buffer, at, 0, size):
            return None
        is_ordinary = has_ordinary_records(
            at, size, count, base_timestamp, max_timestamp, oldest_ms, newest_ms
        )
    else:
        with nogil:
            is_ordinary = quick_crc32c(at + CRC_END, size - CRC_END) == (
                <uint32_t>big_endian(at + CRC_START, 4)
            ) and has_ordinary_records(
                at, size, count, base_timestamp, max_timestamp, oldest_ms, newest_ms
            )
    return header_at(at) if is_ordinary else None


cdef inline int64_t max_record_count(int codec, Py_ssize_t packed_bytes) noexcept:
    """Return the maximum number of records in this many bytes."""
    cdef int64_t unpacked_bytes = packed_bytes * MAX_EXPANSION[codec]
    if codec and unpacked_bytes > MAX_UNPACKED_BYTES:
        unpacked_bytes = MAX_UNPACKED_BYTES
    return unpacked_bytes // MIN_RECORD_BYTES


cdef bint begins_like(int codec, const uint8_t* at, Py_ssize_t size) noexcept:
    if codec == GZIP:
        return size >= 2 and at[0] == 0x1F and at[1] == 0x8B
    if codec == LZ4:
        return size >= 4 and <uint32_t>big_endian(at, 4) == 0x04224D18
    if codec == ZSTD:
        return size >= 4 and <uint32_t>big_endian(at, 4) == 0x28B52FFD
    return True
