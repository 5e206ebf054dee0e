# Records to columns.

cdef struct Cells:
    # A binary column that is written. The row room is a multiple of eight.
    int32_t* offsets
    char* data
    uint8_t* validity
    Py_ssize_t rows
    Py_ssize_t used
    Py_ssize_t nulls
    Py_ssize_t row_room
    Py_ssize_t data_room


cdef struct Rows:
    # The places that records are written to as rows.
    int64_t* offsets
    int64_t* timestamps
    int16_t* attributes
    int32_t* header_offsets
    Cells keys
    Cells values
    Cells header_keys
    Cells header_values
    Py_ssize_t count
    Py_ssize_t room


cdef int make_room(Cells* cells, Py_ssize_t row_room, Py_ssize_t data_room) noexcept nogil:
    """Give a column at least so much room in all."""
    cdef void* grown
    row_room = (row_room + 7) & ~7
    if row_room > cells.row_room or cells.offsets == NULL:
        grown = realloc(cells.offsets, (row_room + 1) * sizeof(int32_t))
        if grown == NULL:
            return NO_MEMORY
        cells.offsets = <int32_t*>grown
        cells.offsets[cells.rows] = <int32_t>cells.used
        grown = realloc(cells.validity, row_room // 8 + 1)
        if grown == NULL:
            return NO_MEMORY
        cells.validity = <uint8_t*>grown
        memset(cells.validity + cells.row_room // 8, 0xFF, (row_room - cells.row_room) // 8)
        cells.row_room = row_room
    if data_room > cells.data_room or cells.data == NULL:
        grown = realloc(cells.data, data_room + 1)
        if grown == NULL:
            return NO_MEMORY
        cells.data = <char*>grown
        cells.data_room = data_room
    return OK


cdef int make_row_room(Rows* rows, Py_ssize_t room) noexcept nogil:
    """Give the columns that all records have room for at least so many rows in all."""
    cdef void* grown
    if room <= rows.room and rows.offsets != NULL:
        return OK
    grown = realloc(rows.offsets, (room + 1) * sizeof(int64_t))
    if grown == NULL:
        return NO_MEMORY
    rows.offsets = <int64_t*>grown
    grown = realloc(rows.timestamps, (room + 1) * sizeof(int64_t))
    if grown == NULL:
        return NO_MEMORY
    rows.timestamps = <int64_t*>grown
    grown = realloc(rows.attributes, (room + 1) * sizeof(int16_t))
    if grown == NULL:
        return NO_MEMORY
    rows.attributes = <int16_t*>grown
    grown = realloc(rows.header_offsets, (room + 1) * sizeof(int32_t))
    if grown == NULL:
        return NO_MEMORY
    rows.header_offsets = <int32_t*>grown
    if rows.count == 0:
        rows.header_offsets[0] = 0
    rows.room = room
    return OK


cdef int grow(Cells* cells, Py_ssize_t length) noexcept nogil:
    """Make room for one more cell, and for as much again as there is."""
    cdef Py_ssize_t row_room = cells.row_room
    cdef Py_ssize_t data_room = cells.data_room
    if length > INT32_MAX - cells.used or cells.rows >= INT32_MAX - 8:
        return COLUMN_TOO_LARGE
    if cells.rows >= row_room:
        row_room = 2 * row_room + 64
    if length > data_room - cells.used:
        data_room = min(2 * data_room + length, INT32_MAX)
    return make_room(cells, row_room, data_room)


cdef inline int append_cell(Cells* cells, const uint8_t* content, int32_t length) noexcept nogil:
    cdef int status
    if cells.rows >= cells.row_room or length > cells.data_room - cells.used:
        status = grow(cells, max(length, 0))
        if status != OK:
            return status
    if length < 0:
        cells.validity[cells.rows >> 3] &= ~(1 << (cells.rows & 7))
        cells.nulls += 1
    else:
        memcpy(cells.data + cells.used, content, length)
        cells.used += length
    cells.rows += 1
    cells.offsets[cells.rows] = <int32_t>cells.used
    return OK


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
    # What the records of one batch need to know of its header.
    Py_ssize_t record_count
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint has_append_time
    int16_t attributes


cdef int make_section_room(Rows* rows, Py_ssize_t size, Py_ssize_t count) noexcept nogil:
    """Make room for a section, even if it were all keys, or all values."""
    cdef int status = check_count(size, count)
    cdef Py_ssize_t needed = rows.count + count
    if status != OK:
        return status
    if rows.keys.used + size > INT32_MAX or rows.values.used + size > INT32_MAX:
        return COLUMN_TOO_LARGE
    if needed > rows.room:
        needed = max(needed, 2 * rows.room)
        status = make_row_room(rows, needed)
    if status == OK:
        status = make_room(&rows.keys, needed, roomy(&rows.keys, size))
    if status == OK:
        status = make_room(&rows.values, needed, roomy(&rows.values, size))
    return status


cdef inline Py_ssize_t roomy(const Cells* cells, Py_ssize_t size) noexcept nogil:
    """The present room of a column, or twice as much when so many more bytes may not fit."""
    if cells.used + size <= cells.data_room:
        return cells.data_room
    return max(cells.used + size, 2 * cells.data_room)


cdef inline void clear_bit(uint8_t* bits, Py_ssize_t index) noexcept nogil:
    bits[index >> 3] &= ~(1 << (index & 7))


cdef int append_records(
    const uint8_t* base, Py_ssize_t size, const Batch* batch, int64_t first_offset, Rows* rows
) noexcept nogil:
    """Read a section into rows, for which there is room. Spelled out, as this is the hot loop."""
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
        # What is behind this record in its section is also free behind what is copied of it.
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


cdef class Owned:
    """A block of C's memory that Arrow can adopt: it lives as long as anybody looks at it."""

    cdef void* block
    cdef Py_ssize_t size
    cdef Py_ssize_t room

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.block, self.size, 1, flags)

    def __dealloc__(self):
        give_block(self.block, self.room)


cdef object adopt(void** block, Py_ssize_t size, Py_ssize_t room):
    """The first bytes of a block as a buffer. Afterwards the block is no longer the caller's."""
    cdef Owned owned = Owned()
    owned.block = block[0]
    owned.size = size
    owned.room = room
    block[0] = NULL
    return memoryview(owned)


cdef object adopt_column(Cells* cells):
    validity = None
    if cells.nulls:
        validity = adopt(
            <void**>&cells.validity, (cells.rows + 7) // 8, cells.row_room // 8 + 1
        )
    return BinaryBuffers(
        validity,
        adopt(
            <void**>&cells.offsets,
            (cells.rows + 1) * sizeof(int32_t),
            (cells.row_room + 1) * sizeof(int32_t),
        ),
        adopt(<void**>&cells.data, cells.used, cells.data_room + 1),
    )


cdef object adopt_numbers(void** block, const Rows* rows, Py_ssize_t more, Py_ssize_t width):
    """One number for every row, and perhaps one more."""
    return adopt(block, (rows.count + more) * width, (rows.room + 1) * width)


cdef int preset(void** place, Py_ssize_t size) except -1:
    place[0] = take_block(size)
    if place[0] == NULL:
        raise MemoryError
    return 0


cdef int preset_column(Cells* cells, Py_ssize_t row_room, Py_ssize_t data_room) except -1:
    """The first room of a column, from spare memory where there is some."""
    row_room = (row_room + 7) & ~7
    preset(<void**>&cells.offsets, (row_room + 1) * sizeof(int32_t))
    preset(<void**>&cells.validity, row_room // 8 + 1)
    preset(<void**>&cells.data, data_room + 1)
    cells.offsets[0] = 0
    memset(cells.validity, 0xFF, row_room // 8)
    cells.row_room = row_room
    cells.data_room = data_room
    return 0


cdef void release(Cells* cells) noexcept:
    free(cells.offsets)
    free(cells.data)
    free(cells.validity)


cdef class Columns:
    """The columns that records are decoded into."""

    cdef Rows rows

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t keys, Py_ssize_t values) except -1:
        """Make the first room: for so many rows, and bytes of keys and of values."""
        preset(<void**>&self.rows.offsets, (rows + 1) * sizeof(int64_t))
        preset(<void**>&self.rows.timestamps, (rows + 1) * sizeof(int64_t))
        preset(<void**>&self.rows.attributes, (rows + 1) * sizeof(int16_t))
        preset(<void**>&self.rows.header_offsets, (rows + 1) * sizeof(int32_t))
        self.rows.header_offsets[0] = 0
        self.rows.room = rows
        preset_column(&self.rows.keys, rows, keys)
        preset_column(&self.rows.values, rows, values)
        preset_column(&self.rows.header_keys, 0, 0)
        preset_column(&self.rows.header_values, 0, 0)
        return 0

    def __dealloc__(self):
        free(self.rows.offsets)
        free(self.rows.timestamps)
        free(self.rows.attributes)
        free(self.rows.header_offsets)
        release(&self.rows.keys)
        release(&self.rows.values)
        release(&self.rows.header_keys)
        release(&self.rows.header_values)

    cdef object finish(self):
        cdef Rows* rows = &self.rows
        cdef Py_ssize_t header_count = rows.header_keys.rows
        return DecodedColumns(
            row_count=rows.count,
            offsets=adopt_numbers(<void**>&rows.offsets, rows, 0, sizeof(int64_t)),
            timestamps=adopt_numbers(<void**>&rows.timestamps, rows, 0, sizeof(int64_t)),
            attributes=adopt_numbers(<void**>&rows.attributes, rows, 0, sizeof(int16_t)),
            keys=adopt_column(&rows.keys),
            values=adopt_column(&rows.values),
            headers=HeaderBuffers(
                validity=None,
                offsets=adopt_numbers(<void**>&rows.header_offsets, rows, 1, sizeof(int32_t)),
                keys=adopt_column(&rows.header_keys),
                values=adopt_column(&rows.header_values),
                header_count=header_count,
            ),
        )


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
    return batch


cdef int reserve_by_sample(
    Columns columns, const uint8_t* base, Py_ssize_t size, Py_ssize_t count, Py_ssize_t expected
) except -1:
    """Make room for the expected bytes of records, if all are like those of the first section.

    Making much more room than needed, or growing into it, would cost more than decoding: fresh
    pages are dear. What does not fit after all grows by doubling.
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
    sections, *, int64_t first_offset, Py_ssize_t expected_bytes, bint checks_crc=False
):
    """The records of many batches as columns, those before `first_offset` left out."""
    cdef Columns columns = Columns()
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
            whole = memoryview(buffer)
        assert 0 <= start <= stop <= source.size, "a section lies within its buffer"
        if checks_crc and not batch.attributes & CODEC_MASK:
            assert start >= HEADER_BYTES, "an uncompressed section lies behind its header"
            if crc32c(whole[start - HEADER_BYTES + CRC_END : stop]) != header.crc:
                check_crc(buffer, header, start - HEADER_BYTES)
        base = source.bytes + start
        if is_first:
            reserve_by_sample(columns, base, stop - start, batch.record_count, expected_bytes)
            is_first = False
        with nogil:
            status = make_section_room(target, stop - start, batch.record_count)
            if status == OK:
                status = append_records(base, stop - start, &batch, first_offset, target)
        if status != OK:
            refuse(status)
    if is_first:
        columns.reserve(0, 0, 0)
    return columns.finish()
