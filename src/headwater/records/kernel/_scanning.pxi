# Scan the headers of contiguous batches.

def scan(buffer, Py_ssize_t position, Py_ssize_t limit):
    """Return the headers of the whole batches in a range, and the position after the last one."""
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


cdef inline bint is_sane(const uint8_t* at) noexcept nogil:
    """Return whether `check_header` would accept the header."""
    return (
        at[16] == 2
        and <int32_t>big_endian(at + 8, 4) >= MIN_LENGTH
        and <int32_t>big_endian(at + 23, 4) >= 0
        and <int32_t>big_endian(at + 57, 4) >= 0
    )


def valid_run(
    buffer,
    Py_ssize_t position,
    *,
    int64_t lowest_offset,
    int64_t highest_offset,
    int32_t leader_epoch,
    int64_t index_interval_bytes,
    progress,
):
    """Return the complete, valid batches in order at the start of a buffer, as one run."""
    cdef Borrowed source = Borrowed(buffer)
    cdef list entries = []
    cdef const uint8_t* batch
    cdef Py_ssize_t at = 0, size
    cdef int64_t largest_timestamp = progress[0], largest_offset = progress[1]
    cdef int64_t bytes_since_entry = progress[2]
    cdef int64_t base_offset, last_offset, max_timestamp
    cdef int32_t epoch, last_delta
    while source.size - at >= HEADER_BYTES:
        batch = source.bytes + at
        if not is_sane(batch):
            break
        size = <Py_ssize_t><int32_t>big_endian(batch + 8, 4) + LENGTH_END
        base_offset = <int64_t>big_endian(batch, 8)
        last_delta = <int32_t>big_endian(batch + 23, 4)
        epoch = <int32_t>big_endian(batch + 12, 4)
        if size > source.size - at or base_offset < lowest_offset:
            break
        # Written so that no sum can overflow.
        if highest_offset < last_delta or base_offset > highest_offset - last_delta:
            break
        if epoch >= 0 and epoch != leader_epoch:
            break
        if not has_right_crc(buffer, source.bytes, at, at + size):
            break
        last_offset = base_offset + last_delta
        max_timestamp = <int64_t>big_endian(batch + 35, 8)
        if max_timestamp > largest_timestamp:
            largest_timestamp = max_timestamp
            largest_offset = last_offset
        if bytes_since_entry > index_interval_bytes:
            entries.append((last_offset, position + at, largest_timestamp, largest_offset))
            bytes_since_entry = 0
        bytes_since_entry += size
        lowest_offset = last_offset + 1
        at += size
    reached = IndexProgress(largest_timestamp, largest_offset, bytes_since_entry)
    return ValidRun(at, lowest_offset, reached, entries)


cdef enum:
    BATCHES_REMEMBERED = 5
    PRODUCER_SLOTS = 64
    WITH_A_TRANSACTION = 0x30  # control and transactional batches


cdef struct ProducerSlot:
    int64_t producer_id
    int16_t epoch
    int count


def producer_headers(buffer, Py_ssize_t position):
    """Return the headers and positions of producers' batches, and where the walk ended."""
    cdef Borrowed source = Borrowed(buffer)
    cdef Py_ssize_t room = source.size // HEADER_BYTES + 1, count = 0
    cdef Py_ssize_t* places = <Py_ssize_t*>malloc(room * sizeof(Py_ssize_t))
    cdef const uint8_t* at
    if places == NULL:
        raise MemoryError
    try:
        if position < 0:
            raise ValueError("a position is not negative")
        while source.size - position >= HEADER_BYTES:
            at = source.bytes + position
            if not is_sane(at):
                break
            if <int64_t>big_endian(at + 43, 8) >= 0:
                places[count] = position
                count += 1
            position += <Py_ssize_t><int32_t>big_endian(at + 8, 4) + LENGTH_END
        return last_of_each_producer(source.bytes, places, count), position
    finally:
        free(places)


def last_header(buffer):
    """Return position and header of the last batch whose header is in the buffer, or None."""
    cdef Borrowed source = Borrowed(buffer)
    cdef Py_ssize_t position = 0, last = -1
    while source.size - position >= HEADER_BYTES and is_sane(source.bytes + position):
        last = position
        position += <Py_ssize_t><int32_t>big_endian(source.bytes + position + 8, 4) + LENGTH_END
    return None if last < 0 else (last, header_at(source.bytes + last))


cdef list last_of_each_producer(const uint8_t* base, const Py_ssize_t* places, Py_ssize_t count):
    """Walk backwards; a slot is overwritten by the next producer that maps to it."""
    cdef ProducerSlot slots[PRODUCER_SLOTS]
    cdef ProducerSlot* slot
    cdef list kept = []
    cdef const uint8_t* at
    cdef int64_t producer_id
    cdef int16_t epoch
    cdef Py_ssize_t index
    for index in range(PRODUCER_SLOTS):
        slots[index].producer_id = -1
    for index in range(count - 1, -1, -1):
        at = base + places[index]
        if not at[22] & WITH_A_TRANSACTION:
            producer_id = <int64_t>big_endian(at + 43, 8)
            epoch = <int16_t>big_endian(at + 51, 2)
            slot = &slots[producer_id % PRODUCER_SLOTS]
            if slot.producer_id != producer_id or slot.epoch != epoch:
                slot.producer_id = producer_id
                slot.epoch = epoch
                slot.count = 0
            slot.count += 1
            if slot.count > BATCHES_REMEMBERED:
                continue
        kept.append((places[index], header_at(at)))
    kept.reverse()
    return kept
