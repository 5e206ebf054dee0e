# Check and filter record sections.

def check_records(payload, Py_ssize_t record_count):
    """Walk the records, raise if their structure is invalid, and summarise them."""
    cdef Borrowed source = Borrowed(payload)
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef Places record
    cdef Py_ssize_t index, position = 0
    cdef bint is_dense = True, has_null_key = False
    cdef int64_t latest = 0
    cdef int status = check_count(size, record_count)
    if status != OK:
        raise_status(status)
    with nogil:
        for index in range(record_count):
            status = read_record(base, position, size, &record)
            if status != OK:
                break
            position = record.end
            is_dense = is_dense and record.offset_delta == index
            has_null_key = has_null_key or record.key_length < 0
            if index == 0 or record.timestamp_delta > latest:
                latest = record.timestamp_delta
    if status != OK:
        raise_status(status)
    if position != size:
        raise_status(LEFT_OVER)
    return RecordsSummary(bool(is_dense), bool(has_null_key), latest if record_count else None)


cdef int check_section(Borrowed source, Py_ssize_t record_count) except -1:
    """Raise unless the whole section can be read: later passes rely on it."""
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef int status
    with nogil:
        status = walk(base, size, record_count)
    if status != OK:
        raise_status(status)
    return 0


def first_timestamp_delta(payload, Py_ssize_t record_count, keep):
    """Return the timestamp delta of the first record that a mask keeps; None if it keeps none."""
    cdef Borrowed source = Borrowed(payload)
    cdef Borrowed mask = Borrowed(keep)
    cdef Places record
    cdef Py_ssize_t index, position = 0
    assert mask.size == record_count, "a mask has one byte for every record"
    check_section(source, record_count)
    for index in range(record_count):
        read_record(source.bytes, position, source.size, &record)
        if mask.bytes[index]:
            return record.timestamp_delta
        position = record.end
    return None


def filter_records(payload, Py_ssize_t record_count, keep, int64_t base_timestamp_shift):
    """Return the records whose byte in `keep` is not zero, and their largest timestamp delta."""
    cdef Borrowed source = Borrowed(payload)
    cdef Borrowed mask = Borrowed(keep)
    cdef const uint8_t* base = source.bytes
    cdef const uint8_t* wanted = mask.bytes
    cdef Py_ssize_t size = source.size
    cdef Places record
    cdef Py_ssize_t index, rest, position = 0, kept_count = 0
    cdef int64_t delta, latest = 0
    cdef uint8_t* start
    cdef uint8_t* at
    assert mask.size == record_count, "a mask has one byte for every record"
    check_section(source, record_count)
    # A new delta takes at most ten bytes, and makes the preceding length one byte longer.
    cdef bytearray kept = PyByteArray_FromStringAndSize(
        NULL, size + (11 * record_count if base_timestamp_shift else 0)
    )
    start = <uint8_t*>PyByteArray_AS_STRING(kept)
    at = start
    with nogil:
        for index in range(record_count):
            read_record(base, position, size, &record)
            position = record.end
            if not wanted[index]:
                continue
            delta = add64(record.timestamp_delta, <int64_t>(0 - <uint64_t>base_timestamp_shift))
            if base_timestamp_shift == 0:
                memcpy(at, base + record.start, record.end - record.start)
                at += record.end - record.start
            else:
                rest = record.end - record.after_timestamp
                at = write_varint(at, 1 + varint_size(delta) + rest)
                at[0] = base[record.body]
                at = write_varint(at + 1, delta)
                memcpy(at, base + record.after_timestamp, rest)
                at += rest
            if kept_count == 0 or delta > latest:
                latest = delta
            kept_count += 1
    return PyBytes_FromStringAndSize(<char*>start, at - start), kept_count, (
        latest if kept_count else None
    )


def renumber_records(payload, Py_ssize_t record_count):
    """Return the records with offset deltas 0, 1, 2 and so on."""
    cdef Borrowed source = Borrowed(payload)
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef Places record
    cdef Py_ssize_t index, front, rest, position = 0
    cdef uint8_t* start
    cdef uint8_t* at
    check_section(source, record_count)
    # A delta takes at most five bytes, and may make the preceding length one byte longer.
    cdef bytearray renumbered = PyByteArray_FromStringAndSize(NULL, size + 6 * record_count)
    start = <uint8_t*>PyByteArray_AS_STRING(renumbered)
    at = start
    with nogil:
        for index in range(record_count):
            read_record(base, position, size, &record)
            position = record.end
            front = record.after_timestamp - record.body
            rest = record.end - record.after_offset
            at = write_varint(at, front + varint_size(index) + rest)
            memcpy(at, base + record.body, front)
            at = write_varint(at + front, index)
            memcpy(at, base + record.after_offset, rest)
            at += rest
    return PyBytes_FromStringAndSize(<char*>start, at - start)
