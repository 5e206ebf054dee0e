# Columns that records are decoded into: their memory, and how Arrow adopts them.

cdef struct Cells:
    # Binary column being written. The row capacity is a multiple of eight.
    int32_t* offsets
    char* data
    uint8_t* validity
    Py_ssize_t rows
    Py_ssize_t used
    Py_ssize_t nulls
    Py_ssize_t row_room
    Py_ssize_t data_room


cdef struct Rows:
    # Output arrays of the decoded rows.
    int64_t* offsets
    int64_t* timestamps
    int16_t* attributes
    int32_t* header_offsets
    Cells keys
    Cells values
    Cells header_keys
    Cells header_values
    uint8_t* views  # of values that are not copied, else NULL
    Py_ssize_t count
    Py_ssize_t room


cdef int make_room(Cells* cells, Py_ssize_t row_room, Py_ssize_t data_room) noexcept nogil:
    """Grow a column to at least this total capacity."""
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
    """Grow the columns that all records have to at least this many rows in total."""
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
    if rows.views != NULL:
        grown = realloc(rows.views, (room + 1) * VIEW_BYTES)
        if grown == NULL:
            return NO_MEMORY
        rows.views = <uint8_t*>grown
    rows.room = room
    return OK


cdef int grow(Cells* cells, Py_ssize_t length) noexcept nogil:
    """Grow for one more cell by at least doubling."""
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


cdef int make_section_room(Rows* rows, Py_ssize_t size, Py_ssize_t count) noexcept nogil:
    """Reserve memory for a section, even if it were all keys or all values."""
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
        status = make_room(
            &rows.values, needed, 0 if rows.views != NULL else roomy(&rows.values, size)
        )
    return status


cdef inline Py_ssize_t roomy(const Cells* cells, Py_ssize_t size) noexcept nogil:
    """Return the capacity of a column, doubled if `size` more bytes may not fit."""
    if cells.used + size <= cells.data_room:
        return cells.data_room
    return max(cells.used + size, 2 * cells.data_room)


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
    """Adopt a block with one number per row, and perhaps one more."""
    return adopt(block, (rows.count + more) * width, (rows.room + 1) * width)


cdef int preset(void** place, Py_ssize_t size) except -1:
    place[0] = take_block(size)
    if place[0] == NULL:
        raise MemoryError
    return 0


cdef int preset_column(Cells* cells, Py_ssize_t row_room, Py_ssize_t data_room) except -1:
    """Allocate a column's initial memory, from reused blocks if possible."""
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
    """Columns that records are decoded into."""

    cdef Rows rows

    # Buffers of all sections, which hold the values that are not copied.
    cdef list sources

    def __cinit__(self, bint views):
        self.sources = [] if views else None

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t keys, Py_ssize_t values) except -1:
        """Allocate the initial memory for rows, key bytes and value bytes."""
        if self.sources is not None:
            preset(<void**>&self.rows.views, (rows + 1) * VIEW_BYTES)
            values = 0
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
        free(self.rows.views)
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
            values=adopt_column(&rows.values) if self.sources is None else self.finish_views(),
            headers=HeaderBuffers(
                validity=None,
                offsets=adopt_numbers(<void**>&rows.header_offsets, rows, 1, sizeof(int32_t)),
                keys=adopt_column(&rows.header_keys),
                values=adopt_column(&rows.header_values),
                header_count=header_count,
            ),
        )


    cdef object finish_views(self):
        cdef Rows* rows = &self.rows
        validity = None
        if rows.values.nulls:
            validity = adopt(
                <void**>&rows.values.validity,
                (rows.count + 7) // 8,
                rows.values.row_room // 8 + 1,
            )
        views = adopt(<void**>&rows.views, rows.count * VIEW_BYTES, (rows.room + 1) * VIEW_BYTES)
        return ViewBuffers(validity, views, tuple(self.sources))
