# Read a Produce request of one batch for one partition, and write its response.

cdef enum:
    REQUEST_HEADER_BYTES = 10
    OLDEST_PRODUCE = 8
    FLEXIBLE_PRODUCE = 9
    PRODUCE_WITH_IDS = 13
    NEWEST_PRODUCE = 13
    TOPIC_ID_BYTES = 16
    LONGEST_NAME_BYTES = 126
    PRODUCED_BYTES = 30


cdef struct ProducePlaces:
    int16_t acks
    int32_t partition
    Py_ssize_t topic
    Py_ssize_t topic_end
    Py_ssize_t records
    Py_ssize_t records_end


def read_single_produce(memoryview frame):
    """Parse a request frame without its size field; None if it is not a single Produce."""
    cdef Py_buffer view
    cdef ProducePlaces places
    cdef int32_t correlation_id
    cdef int16_t version
    cdef bytes topic
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        version = find_produce(<const uint8_t*>view.buf, view.len, &places)
        if version < 0:
            return None
        correlation_id = <int32_t>big_endian(<const uint8_t*>view.buf + 4, 4)
        topic = PyBytes_FromStringAndSize(
            <const char*>view.buf + places.topic, places.topic_end - places.topic
        )
    finally:
        PyBuffer_Release(&view)
    return tuple.__new__(
        SingleProduce,
        (
            version,
            correlation_id,
            places.acks,
            topic,
            places.partition,
            frame[places.records : places.records_end],
        ),
    )


cdef int16_t find_produce(
    const uint8_t* base, Py_ssize_t size, ProducePlaces* places
) noexcept nogil:
    """Return the version, or -1 if the request is of another kind."""
    cdef int16_t version, length
    cdef Py_ssize_t position
    if size < REQUEST_HEADER_BYTES or big_endian(base, 2):
        return -1
    version = <int16_t>big_endian(base + 2, 2)
    if version < OLDEST_PRODUCE or version > NEWEST_PRODUCE:
        return -1
    length = <int16_t>big_endian(base + 8, 2)
    position = REQUEST_HEADER_BYTES + (length if length > 0 else 0)
    if version < FLEXIBLE_PRODUCE:
        return version if find_parts(base, position, size, places) else -1
    if position >= size or base[position]:
        return -1
    return version if find_compact_parts(base, position + 1, size, version, places) else -1


cdef bint find_compact_parts(
    const uint8_t* base,
    Py_ssize_t position,
    Py_ssize_t size,
    int16_t version,
    ProducePlaces* places,
) noexcept nogil:
    cdef uint64_t records_size
    cdef Py_ssize_t length = TOPIC_ID_BYTES
    # No transactional id, acks, timeout, one topic, and at least one byte of it.
    if position + 9 > size or base[position] or base[position + 7] != 2:
        return False
    places.acks = <int16_t>big_endian(base + position + 1, 2)
    position += 8
    if version < PRODUCE_WITH_IDS:
        length = <Py_ssize_t>base[position] - 1
        if length < 0 or length > LONGEST_NAME_BYTES:
            return False
        position += 1
    places.topic = position
    position += length
    places.topic_end = position
    # One partition and its index.
    if position + 5 > size or base[position] != 2:
        return False
    places.partition = <int32_t>big_endian(base + position + 1, 4)
    position += 5
    if read_unsigned(base, &position, size, 32, &records_size) != OK or records_size < 2:
        return False
    places.records = position
    places.records_end = position + <Py_ssize_t>records_size - 1
    # Followed by three counts of tagged fields, all zero.
    return places.records_end + 3 == size and not big_endian(base + places.records_end, 3)


cdef bint find_parts(
    const uint8_t* base, Py_ssize_t position, Py_ssize_t size, ProducePlaces* places
) noexcept nogil:
    cdef int16_t length
    cdef int32_t records_size
    # No transactional id, acks, timeout, one topic, length of its name.
    if (
        position + 14 > size
        or <int16_t>big_endian(base + position, 2) != -1
        or big_endian(base + position + 8, 4) != 1
    ):
        return False
    places.acks = <int16_t>big_endian(base + position + 2, 2)
    length = <int16_t>big_endian(base + position + 12, 2)
    if length < 0:
        return False
    places.topic = position + 14
    position = places.topic + length
    places.topic_end = position
    # One partition, its index, the size of its records.
    if position + 12 > size or big_endian(base + position, 4) != 1:
        return False
    places.partition = <int32_t>big_endian(base + position + 4, 4)
    records_size = <int32_t>big_endian(base + position + 8, 4)
    places.records = position + 12
    places.records_end = size
    return records_size >= 1 and places.records + records_size == size


def write_single_produce(
    produce, int64_t base_offset, int64_t append_time_ms, int64_t log_start_offset
):
    """Return the complete response frame of a successful append."""
    cdef int16_t version = produce[0]
    cdef bytes topic = produce[3]
    cdef Py_ssize_t length = len(topic)
    cdef bint is_compact = version >= FLEXIBLE_PRODUCE
    # Length of the name, unless there is an id instead.
    cdef Py_ssize_t count_bytes = (version < PRODUCE_WITH_IDS) if is_compact else 2
    # Size and correlation id; what precedes the topic and its partition; the end.
    cdef Py_ssize_t size = 8 + count_bytes + length + PRODUCED_BYTES + (12 if is_compact else 18)
    cdef bytes answer = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(answer)
    memset(at, 0, size)
    at = put_big_endian(at, size - 4, 4)
    at = put_big_endian(at, <uint64_t><int64_t>produce[1], 4)
    if is_compact:
        at[1] = 2
        at += 2
        if count_bytes:
            at[0] = <uint8_t>(length + 1)
            at += 1
    else:
        at = put_big_endian(at, 1, 4)
        at = put_big_endian(at, length, 2)
    memcpy(at, PyBytes_AS_STRING(topic), length)
    at += length
    if is_compact:
        at[0] = 2
        at += 1
    else:
        at = put_big_endian(at, 1, 4)
    at = put_big_endian(at, <uint64_t><int64_t>produce[4], 4) + 2
    at = put_big_endian(at, <uint64_t>base_offset, 8)
    at = put_big_endian(at, <uint64_t>append_time_ms, 8)
    at = put_big_endian(at, <uint64_t>log_start_offset, 8)
    if is_compact:
        at[0] = 1
    else:
        at[4] = at[5] = 0xFF
    return answer
