# Encode columns as records.

cdef struct Column:
    # Binary column being read; the pointers belong to foreign buffers. An absent one, all zeros,
    # has only nulls.
    const uint8_t* validity
    Py_ssize_t validity_bytes
    const uint8_t* offsets
    Py_ssize_t offsets_bytes
    const uint8_t* data
    Py_ssize_t limit
    Py_ssize_t first
    bint is_wide
    bint is_there
    bint is_plain  # no nulls, narrow offsets, all of them checked beforehand


cdef struct Content:
    # One cell of a column. A negative length is null.
    const uint8_t* start
    int64_t length
    int64_t slack  # bytes after it in the column's data


cdef inline int is_null(const Column* column, Py_ssize_t row, bint* answer) noexcept nogil:
    answer[0] = False
    if column.validity != NULL:
        if row >> 3 >= column.validity_bytes:
            return BAD_COLUMN
        answer[0] = not (column.validity[row >> 3] >> (row & 7) & 1)
    return OK


cdef inline int bounds(
    const Column* column, Py_ssize_t row, int64_t* start, int64_t* end
) noexcept nogil:
    cdef int32_t narrow[2]
    cdef int64_t wide[2]
    cdef Py_ssize_t width = 8 if column.is_wide else 4
    if (row + 2) * width > column.offsets_bytes:
        return BAD_COLUMN
    if column.is_wide:
        memcpy(wide, column.offsets + row * width, sizeof(wide))
        start[0] = wide[0]
        end[0] = wide[1]
    else:
        memcpy(narrow, column.offsets + row * width, sizeof(narrow))
        start[0] = narrow[0]
        end[0] = narrow[1]
    if start[0] < 0 or end[0] < start[0] or end[0] > column.limit:
        return BAD_COLUMN
    return OK


cdef inline int cell(const Column* column, Py_ssize_t row, Content* content) noexcept nogil:
    cdef bint absent
    cdef int64_t start, end
    cdef int32_t narrow[2]
    cdef int status
    if not column.is_there:
        content.length = -1
        return OK
    row += column.first
    if column.is_plain:
        memcpy(narrow, column.offsets + 4 * row, sizeof(narrow))
        content.start = column.data + narrow[0]
        content.length = narrow[1] - narrow[0]
        content.slack = column.limit - narrow[1]
        return OK
    status = is_null(column, row, &absent)
    if status != OK:
        return status
    if absent:
        content.length = -1
        return OK
    status = bounds(column, row, &start, &end)
    content.start = column.data + start
    content.length = end - start
    content.slack = column.limit - end
    return status


cdef bint check_plain(const Column* column, Py_ssize_t row_count) noexcept nogil:
    """Check all offsets at once, so that no cell needs a check of its own."""
    cdef const uint8_t* at = column.offsets + 4 * column.first
    cdef int32_t previous, offset
    cdef bint is_rising = True
    cdef Py_ssize_t index
    if not column.is_there or column.is_wide or column.validity != NULL:
        return False
    if (column.first + row_count + 1) * 4 > column.offsets_bytes:
        return False
    memcpy(&previous, at, sizeof(previous))
    if previous < 0:
        return False
    for index in range(1, row_count + 1):
        memcpy(&offset, at + 4 * index, sizeof(offset))
        is_rising &= previous <= offset
        previous = offset
    return is_rising and previous <= column.limit


cdef class ForeignColumn:
    """Binary column of the caller, held for the lifetime of this object."""

    cdef list held
    cdef Column column

    def __cinit__(self, validity, offsets, data, Py_ssize_t first, bint is_wide, limit=None):
        cdef Borrowed bits, places, content
        places = Borrowed(offsets)
        content = Borrowed(data)
        self.held = [places, content]
        if validity is not None:
            bits = Borrowed(validity)
            self.held.append(bits)
            self.column.validity = bits.bytes
            self.column.validity_bytes = bits.size
        if first < 0:
            raise_status(BAD_COLUMN)
        self.column.offsets = places.bytes
        self.column.offsets_bytes = places.size
        self.column.data = content.bytes
        self.column.limit = content.size if limit is None else limit
        self.column.first = first
        self.column.is_wide = is_wide
        self.column.is_there = True


cdef ForeignColumn foreign(buffers):
    return ForeignColumn(
        buffers.validity, buffers.offsets, buffers.data, buffers.first, buffers.is_wide
    )


cdef struct Table:
    # Columns to encode.
    const int64_t* timestamps
    Column keys
    Column values
    const Column* header_lists
    Column header_keys
    Column header_values
    Py_ssize_t row_count


cdef struct Writing:
    # Batch being written, and the next row.
    uint8_t* start
    Py_ssize_t used
    Py_ssize_t room
    Py_ssize_t row
    Py_ssize_t count
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t sequence


cdef inline Py_ssize_t varbytes_size(const Content* content) noexcept nogil:
    if content.length < 0:
        return 1
    return varint_size(content.length) + content.length


cdef inline uint8_t* write_varbytes(
    uint8_t* at, const Content* content, bint has_slack
) noexcept nogil:
    if content.length < 0:
        at[0] = 1
        return at + 1
    at = write_varint(at, content.length)
    copy(at, content.start, content.length, has_slack and content.slack >= COPY_SLACK)
    return at + content.length


cdef int headers_range(
    const Table* table, Py_ssize_t row, int64_t* start, int64_t* end
) noexcept nogil:
    cdef bint absent
    cdef int status
    start[0] = 0
    end[0] = 0
    row += table.header_lists.first
    status = is_null(table.header_lists, row, &absent)
    if status != OK or absent:
        return status
    return bounds(table.header_lists, row, start, end)


cdef int headers_size(
    const Table* table, int64_t start, int64_t end, Py_ssize_t* size
) noexcept nogil:
    cdef Content content
    cdef int64_t index
    cdef int status
    size[0] = varint_size(end - start)
    for index in range(start, end):
        status = cell(&table.header_keys, index, &content)
        if status != OK:
            return status
        if content.length < 0:
            return HEADER_WITHOUT_KEY
        size[0] += varbytes_size(&content)
        status = cell(&table.header_values, index, &content)
        if status != OK:
            return status
        size[0] += varbytes_size(&content)
    return OK


cdef uint8_t* write_headers(
    uint8_t* at, const Table* table, int64_t start, int64_t end
) noexcept nogil:
    cdef Content content
    cdef int64_t index
    at = write_varint(at, end - start)
    for index in range(start, end):
        cell(&table.header_keys, index, &content)
        at = write_varbytes(at, &content, False)
        cell(&table.header_values, index, &content)
        at = write_varbytes(at, &content, False)
    return at


cdef enum:
    # With key and value of at least this many bytes, a record's length takes two bytes.
    PLAIN_FROM = 64
    PLAIN_TO = 8000
    # Maximum size of a plain record beside key and value.
    PLAIN_EXTRA = 2 + 1 + 3 + 3 + 2 + 2 + 1


cdef inline uint8_t* write_small(uint8_t* at, uint64_t folded) noexcept nogil:
    """Write a number of at most three bytes."""
    if folded <= 0x7F:
        at[0] = <uint8_t>folded
        return at + 1
    at[0] = <uint8_t>(folded | 0x80)
    if folded <= 0x3FFF:
        at[1] = <uint8_t>(folded >> 7)
        return at + 2
    at[1] = <uint8_t>(folded >> 7 | 0x80)
    at[2] = <uint8_t>(folded >> 14)
    return at + 3


cdef void write_plain_records(
    const Table* table, Writing* writing, Py_ssize_t batch_bytes
) noexcept nogil:
    """Write rows as long as they are typical: of medium size and without headers.

    Since the size of the length field is known, the rest can be written before the length itself,
    in half the steps. Stops before the first row that is different, may not fit, or needs a
    decision; `write_records` continues from there.
    """
    cdef const uint8_t* key_offsets = table.keys.offsets + 4 * table.keys.first
    cdef const uint8_t* value_offsets = table.values.offsets + 4 * table.values.first
    cdef const uint8_t* key_data = table.keys.data
    cdef const uint8_t* value_data = table.values.data
    # Both sides of a loose copy need slack: the last bytes of a column are left to `write_records`.
    cdef int64_t key_limit = table.keys.limit - COPY_SLACK
    cdef int64_t value_limit = table.values.limit - COPY_SLACK
    cdef const int64_t* timestamps = table.timestamps
    cdef uint8_t* start = writing.start
    cdef Py_ssize_t room = writing.room - COPY_SLACK - PLAIN_EXTRA
    cdef Py_ssize_t row = writing.row, used = writing.used, count = writing.count
    cdef Py_ssize_t row_count = table.row_count, size, needed
    cdef int64_t base_timestamp = writing.base_timestamp, latest = writing.max_timestamp
    cdef int32_t key[2]
    cdef int32_t value[2]
    cdef Py_ssize_t key_size, value_size
    cdef uint64_t delta
    cdef uint8_t* at
    while row < row_count:
        memcpy(key, key_offsets + 4 * row, sizeof(key))
        memcpy(value, value_offsets + 4 * row, sizeof(value))
        key_size = key[1] - key[0]
        value_size = value[1] - value[0]
        size = key_size + value_size
        if size < PLAIN_FROM or size > PLAIN_TO or used + size > room:
            break
        if key[1] > key_limit or value[1] > value_limit:
            break
        delta = fold(add64(timestamps[row], <int64_t>(0 - <uint64_t>base_timestamp)))
        if (delta | <uint64_t>count << 1) >= 1 << 21:
            break
        at = start + used + 2
        at[0] = 0
        at = write_small(at + 1, delta)
        at = write_small(at, <uint64_t>count << 1)
        at = write_small(at, <uint64_t>key_size << 1)
        copy_loosely(at, key_data + key[0], key_size)
        at = write_small(at + key_size, <uint64_t>value_size << 1)
        copy_loosely(at, value_data + value[0], value_size)
        at[value_size] = 0
        needed = at - start + value_size + 1
        if needed > batch_bytes:
            break
        write_small(start + used, <uint64_t>(needed - used - 2) << 1)
        used = needed
        latest = max(latest, timestamps[row])
        count += 1
        row += 1
    writing.row = row
    writing.used = used
    writing.count = count
    writing.max_timestamp = latest


cdef int write_records(
    const Table* table, Writing* writing, Py_ssize_t batch_bytes
) noexcept nogil:
    """Write rows until all are written, the batch is full, or the buffer needs memory.

    On NEED_ROOM the field `room` is the total size needed. The loop's variables are copied to
    locals first, because C must assume that every byte written may alias what pointers reach.
    """
    cdef Column keys = table.keys
    cdef Column values = table.values
    cdef Content key, value
    cdef int64_t headers_start, headers_end, timestamp, delta
    cdef Py_ssize_t tail, body, needed
    cdef Py_ssize_t row = writing.row, used = writing.used, count = writing.count
    cdef Py_ssize_t room = writing.room, row_count = table.row_count
    cdef int64_t base_timestamp = writing.base_timestamp, latest = writing.max_timestamp
    cdef const int64_t* timestamps = table.timestamps
    cdef const Column* header_lists = table.header_lists
    cdef uint8_t* start = writing.start
    cdef uint8_t* at
    cdef bint has_slack
    cdef bint is_plain = keys.is_plain and values.is_plain and header_lists == NULL
    cdef int status = OK
    while row < row_count:
        status = cell(&keys, row, &key)
        if status == OK:
            status = cell(&values, row, &value)
        tail = 1
        if status == OK and header_lists != NULL:
            status = headers_range(table, row, &headers_start, &headers_end)
            if status == OK:
                status = headers_size(table, headers_start, headers_end, &tail)
        if status != OK:
            break
        timestamp = timestamps[row]
        if count == 0:
            base_timestamp = latest = timestamp
        delta = add64(timestamp, <int64_t>(0 - <uint64_t>base_timestamp))
        tail += varbytes_size(&key) + varbytes_size(&value)
        body = 1 + varint_size(delta) + varint_size(count) + tail
        if body > INT32_MAX:
            status = RECORD_TOO_LARGE
            break
        needed = used + varint_size(body) + body
        if count > 0 and needed > batch_bytes:
            status = FULL
            break
        if needed > room:
            writing.room = needed
            status = NEED_ROOM
            break
        at = write_varint(start + used, body)
        at[0] = 0
        at = write_varint(at + 1, delta)
        at = write_varint(at, count)
        has_slack = room - needed >= COPY_SLACK
        at = write_varbytes(at, &key, has_slack)
        at = write_varbytes(at, &value, has_slack)
        if header_lists == NULL:
            at[0] = 0
        else:
            write_headers(at, table, headers_start, headers_end)
        used = needed
        latest = max(latest, timestamp)
        count += 1
        row += 1
        if is_plain:
            save(writing, row, used, count, base_timestamp, latest)
            write_plain_records(table, writing, batch_bytes)
            is_plain = writing.row > row
            row = writing.row
            used = writing.used
            count = writing.count
            latest = writing.max_timestamp
    save(writing, row, used, count, base_timestamp, latest)
    return status


cdef inline void save(
    Writing* writing,
    Py_ssize_t row,
    Py_ssize_t used,
    Py_ssize_t count,
    int64_t base_timestamp,
    int64_t max_timestamp,
) noexcept nogil:
    writing.row = row
    writing.used = used
    writing.count = count
    writing.base_timestamp = base_timestamp
    writing.max_timestamp = max_timestamp


cdef struct Cut:
    # Finished batch in a memory block.
    Py_ssize_t start
    Py_ssize_t size


cdef enum:
    CUTS_AT_ONCE = 64


cdef class Arena:
    """Memory for batches, taken from the caller in large blocks.

    Fresh memory costs more than filling it, so the caller's allocator, which reuses memory, is
    called for a few blocks instead of once per batch.
    """

    cdef object allocate
    cdef object piece
    cdef uint8_t[::1] view
    cdef Py_ssize_t used
    cdef Py_ssize_t size
    cdef Py_ssize_t expected_bytes

    def __cinit__(self, allocate, Py_ssize_t expected_bytes):
        self.allocate = allocate
        self.expected_bytes = expected_bytes
        self.used = 0
        self.size = 0

    cdef int take_piece(self, Py_ssize_t needed, Py_ssize_t begun) except -1:
        """Continue in a new block, with the started batch copied over."""
        cdef Py_ssize_t size = max(needed, min(self.expected_bytes, PIECE_BYTES))
        cdef object piece = self.allocate(size)
        cdef uint8_t[::1] view = piece
        if view.shape[0] < needed:
            raise MemoryError
        if begun:
            memcpy(&view[0], &self.view[self.used], begun)
        self.expected_bytes = max(self.expected_bytes - size, 0)
        self.piece = piece
        self.view = view
        self.size = view.shape[0]
        self.used = 0
        return 0

    cdef object cut(self, const Cut* cut):
        return self.piece[cut.start : cut.start + cut.size]


def encode_batches(
    Py_ssize_t row_count,
    timestamps,
    keys,
    values,
    headers,
    *,
    template,
    Py_ssize_t batch_bytes,
    Py_ssize_t expected_bytes,
    allocate,
    Py_ssize_t crc_from,
    finish,
):
    """Encode columns into complete uncompressed batches, with a CRC or finished by the caller."""
    cdef bytes front = HEADER.pack(*template)
    cdef Borrowed times = Borrowed(timestamps)
    cdef ForeignColumn key_column, value_column, lists, header_keys, header_values
    cdef Arena arena = Arena(allocate, expected_bytes)
    cdef Table table
    cdef Writing writing
    cdef list batches = []
    memset(&table, 0, sizeof(Table))
    if times.size < row_count * <Py_ssize_t>sizeof(int64_t):
        raise_status(BAD_COLUMN)
    table.timestamps = <const int64_t*>times.bytes
    table.row_count = row_count
    if keys is not None:
        key_column = foreign(keys)
        table.keys = key_column.column
        table.keys.is_plain = check_plain(&table.keys, row_count)
    if values is not None:
        value_column = foreign(values)
        table.values = value_column.column
        table.values.is_plain = check_plain(&table.values, row_count)
    if headers is not None:
        lists = ForeignColumn(
            headers.validity, headers.offsets, b"", headers.first, headers.is_wide, headers.header_count
        )
        header_keys = foreign(headers.keys)
        table.header_lists = &lists.column
        table.header_keys = header_keys.column
        if headers.values is not None:
            header_values = foreign(headers.values)
            table.header_values = header_values.column
    writing.row = 0
    writing.used = 0
    writing.sequence = template.base_sequence
    while writing.row < row_count:
        encode_run(&table, &writing, batch_bytes, front, arena, crc_from, finish, batches)
    return batches


cdef int encode_run(
    const Table* table,
    Writing* writing,
    Py_ssize_t batch_bytes,
    bytes front,
    Arena arena,
    Py_ssize_t crc_from,
    finish,
    list batches,
) except -1:
    """Write as many batches as the current block can hold, and allocate a new block if needed."""
    cdef Cut cuts[CUTS_AT_ONCE]
    cdef int count = 0, index, status
    cdef uint8_t* base = NULL if arena.size == 0 else &arena.view[0]
    cdef const uint8_t* header = <const uint8_t*><char*>front
    cdef bint writes_crc = finish is None and CAN_BE_QUICK
    with nogil:
        status = write_batches(
            table,
            writing,
            batch_bytes,
            header,
            base,
            arena.size,
            &arena.used,
            crc_from if writes_crc else 0,
            cuts,
            &count,
        )
    for index in range(count):
        batch = arena.cut(&cuts[index])
        if finish is not None:
            batch = finish(batch)
        elif not writes_crc:
            put_big_endian(base + cuts[index].start + CRC_START, crc32c(batch[crc_from:]), 4)
        batches.append(batch)
    if status == NEED_ROOM:
        return arena.take_piece(max(writing.room, 2 * writing.used), writing.used)
    if status != OK and status != FULL:
        raise_status(status)
    return 0


cdef int write_batches(
    const Table* table,
    Writing* writing,
    Py_ssize_t batch_bytes,
    const uint8_t* header,
    uint8_t* base,
    Py_ssize_t size,
    Py_ssize_t* begin,
    Py_ssize_t crc_from,
    Cut* cuts,
    int* count,
) noexcept nogil:
    """Write batches until all rows are written, no cut is left, or more memory is needed.

    A batch is in progress while `used` is above zero; it starts at `begin`.
    """
    cdef int status
    while True:
        if writing.used == 0:
            if size - begin[0] < HEADER_BYTES:
                writing.room = HEADER_BYTES + min(max(batch_bytes, 0), FIRST_ROOM_BYTES)
                return NEED_ROOM
            writing.used = HEADER_BYTES
            writing.count = 0
        writing.start = base + begin[0]
        writing.room = size - begin[0]
        status = write_records(table, writing, batch_bytes)
        if status != OK and status != FULL:
            return status
        if writing.used - LENGTH_END > INT32_MAX:
            return RECORD_TOO_LARGE
        memcpy(writing.start, header, HEADER_BYTES)
        write_header(writing)
        if crc_from:
            # Now, while the bytes are in the CPU cache.
            put_big_endian(
                writing.start + CRC_START,
                quick_crc32c(writing.start + crc_from, writing.used - crc_from),
                4,
            )
        cuts[count[0]].start = begin[0]
        cuts[count[0]].size = writing.used
        count[0] += 1
        begin[0] += writing.used
        writing.used = 0
        if writing.row == table.row_count:
            return OK
        if count[0] == CUTS_AT_ONCE:
            return FULL


cdef void write_header(Writing* writing) noexcept nogil:
    """Write the header fields that differ from batch to batch."""
    cdef uint8_t* at = writing.start
    put_big_endian(at + 8, writing.used - LENGTH_END, 4)
    put_big_endian(at + 23, writing.count - 1, 4)
    put_big_endian(at + 27, <uint64_t>writing.base_timestamp, 8)
    put_big_endian(at + 35, <uint64_t>writing.max_timestamp, 8)
    put_big_endian(at + 53, <uint32_t>writing.sequence, 4)
    put_big_endian(at + 57, writing.count, 4)
    if writing.sequence >= 0:
        writing.sequence = <int32_t>((writing.sequence + writing.count) & INT32_MAX)
