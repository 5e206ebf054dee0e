# Decode records into columns.

cdef int append_headers(
    const uint8_t* base, Py_ssize_t position, Py_ssize_t end, int32_t count, Rows* rows
) noexcept nogil:
    cdef HeaderPlaces header
    cdef int32_t index
    cdef int status
    header.end = position
    for index in range(count):
        status = read_header_at(base, header.end, end, &header)
        if status == OK:
            status = append_cell(&rows.header_keys, base + header.key, header.key_length)
        if status == OK:
            status = append_cell(&rows.header_values, base + header.value, header.value_length)
        if status != OK:
            return status
    return OK if header.end == end else WRONG_SIZE


cdef struct Batch:
    # Header fields needed to decode the records of one batch.
    Py_ssize_t record_count
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint has_append_time
    int16_t attributes
    # Where its section is: index of a buffer, and position in it.
    int32_t buffer
    int32_t start


cdef inline void clear_bit(uint8_t* bits, Py_ssize_t index) noexcept nogil:
    bits[index >> 3] &= ~(1 << (index & 7))


cdef inline void write_view(
    uint8_t* at, const uint8_t* content, int32_t length, int32_t buffer, int32_t position
) noexcept nogil:
    memcpy(at, &length, 4)
    if length <= SHORT_VIEW_BYTES:
        memset(at + 4, 0, SHORT_VIEW_BYTES)
        memcpy(at + 4, content, length)
    else:
        memcpy(at + 4, content, 4)
        memcpy(at + 8, &buffer, 4)
        memcpy(at + 12, &position, 4)


cdef int append_records(
    const uint8_t* base, Py_ssize_t size, const Batch* batch, int64_t first_offset, Rows* rows
) noexcept nogil:
    """Decode a section into rows with enough capacity. The hot loop."""
    cdef Places record, skipped
    cdef Py_ssize_t index, position = 0, row = rows.count
    cdef Py_ssize_t key_used = rows.keys.used, value_used = rows.values.used
    cdef int64_t* offsets = rows.offsets
    cdef int64_t* timestamps = rows.timestamps
    cdef int16_t* attributes = rows.attributes
    cdef int32_t* key_offsets = rows.keys.offsets
    cdef int32_t* value_offsets = rows.values.offsets
    cdef char* keys = rows.keys.data
    cdef char* values = rows.values.data
    cdef uint8_t* views = rows.views
    cdef int64_t offset
    cdef int status
    cdef bint has_slack
    for index in range(batch.record_count):
        status = read_front(base, position, size, &record)
        if status != OK:
            return status
        offset = add64(batch.base_offset, record.offset_delta)
        if offset < first_offset:
            status = read_record(base, position, size, &skipped)
            if status != OK:
                return status
            position = record.end
            continue
        position = record.end
        # The bytes after this record in its section are also free after its copy.
        has_slack = size - record.end >= COPY_SLACK
        offsets[row] = offset
        if batch.has_append_time:
            timestamps[row] = batch.append_time
        else:
            timestamps[row] = add64(batch.base_timestamp, record.timestamp_delta)
        attributes[row] = batch.attributes
        if record.key_length < 0:
            clear_bit(rows.keys.validity, row)
            rows.keys.nulls += 1
        else:
            copy(keys + key_used, base + record.key, record.key_length, has_slack)
            key_used += record.key_length
        if record.value_length < 0:
            clear_bit(rows.values.validity, row)
            rows.values.nulls += 1
            if views != NULL:
                memset(views + row * VIEW_BYTES, 0, VIEW_BYTES)
        elif views != NULL:
            write_view(
                views + row * VIEW_BYTES,
                base + record.value,
                record.value_length,
                batch.buffer,
                batch.start + <int32_t>record.value,
            )
        else:
            copy(values + value_used, base + record.value, record.value_length, has_slack)
            value_used += record.value_length
        if record.header_count > 0:
            status = append_headers(base, record.headers, record.end, record.header_count, rows)
            if status != OK:
                return status
        elif record.headers != record.end:
            return WRONG_SIZE
        row += 1
        key_offsets[row] = <int32_t>key_used
        value_offsets[row] = <int32_t>value_used
        rows.header_offsets[row] = <int32_t>rows.header_keys.rows
    rows.count = rows.keys.rows = rows.values.rows = row
    rows.keys.used = key_used
    rows.values.used = value_used
    return OK if position == size else LEFT_OVER


cdef Batch batch_of(header):
    cdef Batch batch
    (
        batch.base_offset,
        _,
        _,
        _,
        _,
        batch.attributes,
        _,
        batch.base_timestamp,
        batch.append_time,
        _,
        _,
        _,
        batch.record_count,
    ) = header
    batch.has_append_time = (batch.attributes & APPEND_TIME_FLAG) != 0
    batch.buffer = batch.start = 0
    return batch


cdef int reserve_by_sample(
    Columns columns, const uint8_t* base, Py_ssize_t size, Py_ssize_t count, Py_ssize_t expected
) except -1:
    """Reserve memory for the expected records, extrapolated from the first section.

    Reserving much more than needed, or growing step by step, would cost more than decoding, because
    fresh pages are expensive. What does not fit after all grows by doubling.
    """
    cdef Places record
    cdef Py_ssize_t position = 0, rows = 0, keys = 0, values = 0
    cdef double share
    if check_count(size, count) == OK:
        while rows < count and read_front(base, position, size, &record) == OK:
            position = record.end
            rows += 1
            keys += max(record.key_length, 0)
            values += max(record.value_length, 0)
    share = 1.1 * max(expected, size) / max(size, 1)
    columns.reserve(
        <Py_ssize_t>(share * rows),
        <Py_ssize_t>min(share * keys + 2 * size, <double>INT32_MAX),
        <Py_ssize_t>min(share * values + 2 * size, <double>INT32_MAX),
    )
    return 0


def decode_sections(
    sections,
    *,
    int64_t first_offset,
    Py_ssize_t expected_bytes,
    bint checks_crc=False,
    bint views=False,
):
    """Decode the records of many batches into columns, without those before `first_offset`."""
    cdef Columns columns = Columns(views)
    cdef Rows* target = &columns.rows
    cdef Py_ssize_t start, stop
    cdef bint is_first = True
    cdef Batch batch
    cdef Borrowed source = None
    cdef const uint8_t* base
    cdef int status
    for buffer, start, stop, header in sections:
        batch = batch_of(header)
        if source is None or buffer is not source.owner:
            source = Borrowed(buffer)
            if views:
                if source.size > INT32_MAX:
                    raise_status(COLUMN_TOO_LARGE)
                columns.sources.append(buffer)
        assert 0 <= start <= stop <= source.size, "a section is inside its buffer"
        if checks_crc and not batch.attributes & CODEC_MASK:
            assert start >= HEADER_BYTES, "an uncompressed section follows its header"
            if not has_right_crc(buffer, source.bytes, start - HEADER_BYTES, stop):
                check_crc(buffer, header, start - HEADER_BYTES)
        base = source.bytes + start
        if views:
            batch.buffer = <int32_t>len(columns.sources) - 1
            batch.start = <int32_t>start
        if is_first:
            reserve_by_sample(columns, base, stop - start, batch.record_count, expected_bytes)
            is_first = False
        with nogil:
            status = make_section_room(target, stop - start, batch.record_count)
            if status == OK:
                status = append_records(base, stop - start, &batch, first_offset, target)
        if status != OK:
            raise_status(status)
    if is_first:
        columns.reserve(0, 0, 0)
    return columns.finish()
