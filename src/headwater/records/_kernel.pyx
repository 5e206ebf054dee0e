# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The record kernel in C: whole record sections at a time, no object per record.

`_twin` says what every function here means; both must give the same results and raise the same
exceptions. What keeps this safe: only `read_front` and `read_header_at` look into untrusted
records, and they compare every position with its limit before they read. Functions that walk a
section twice rely in the second pass on what the first has checked.

The code without the interpreter's lock returns a status; `refuse` turns it into an exception.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from headwater.model.failures import BatchTooLarge, CorruptBatch, DecompressionBomb
from headwater.records.buffers import (
    BinaryBuffers,
    DecodedColumns,
    HeaderBuffers,
    RecordsSummary,
)
from headwater.records.header import HEADER, BatchHeader, check_header

cdef enum:
    HEADER_BYTES = 61
    LENGTH_END = 12
    MIN_LENGTH = 49
    APPEND_TIME_FLAG = 8
    MIN_RECORD_BYTES = 7
    MAP_ENTRY_BYTES = 24
    MAP_SEED_BYTES = 16
    FIRST_ROOM_BYTES = 65536

# Statuses. Zero is fine; FULL and NEED_ROOM are no failures but ends of a run of records.
cdef enum:
    OK = 0
    OVERRUN
    NUMBER_TOO_LARGE
    WRONG_SIZE
    NEGATIVE_HEADERS
    HEADER_WITHOUT_KEY
    TOO_FEW_BYTES
    LEFT_OVER
    BAD_COLUMN
    COLUMN_TOO_LARGE
    RECORD_TOO_LARGE
    NEGATIVE_OFFSET
    NO_MEMORY
    FULL
    NEED_ROOM

cdef dict DAMAGES = {
    OVERRUN: "a record runs over its end",
    NUMBER_TOO_LARGE: "a number is too large for its field",
    WRONG_SIZE: "a record does not fill its declared size",
    NEGATIVE_HEADERS: "a negative number of headers",
    HEADER_WITHOUT_KEY: "a header without a key",
    TOO_FEW_BYTES: "more records are declared than the batch has bytes for",
    LEFT_OVER: "bytes are left over after the last record",
    NEGATIVE_OFFSET: "an offset below zero",
    BAD_COLUMN: "a column's offsets do not fit its data",
}


cdef int refuse(int status) except -1:
    if status == NO_MEMORY:
        raise MemoryError
    if status == COLUMN_TOO_LARGE:
        raise DecompressionBomb("a column would hold more than 2 GiB")
    if status == RECORD_TOO_LARGE:
        raise BatchTooLarge("a record of more than 2 GiB")
    raise CorruptBatch(DAMAGES[status])


# --- Numbers -----------------------------------------------------------------------------------


cdef inline int read_unsigned(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t end, int bits, uint64_t* number
) noexcept nogil:
    """A number of 7 bits a byte; in its last byte only the bits that fit may be set."""
    cdef Py_ssize_t at = position[0]
    cdef int shift = 0
    cdef uint64_t byte, result = 0
    while True:
        if at >= end:
            return OVERRUN
        byte = base[at]
        at += 1
        if shift + 7 > bits and (byte >> (bits - shift)) != 0:
            return NUMBER_TOO_LARGE
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    position[0] = at
    number[0] = result
    return OK


cdef inline int read_varint(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t end, int32_t* number
) noexcept nogil:
    cdef uint64_t folded
    cdef int status
    cdef Py_ssize_t at = position[0]
    # Nearly all numbers in records have one byte or two.
    if at < end and base[at] < 0x80:
        folded = base[at]
        position[0] = at + 1
    elif at + 1 < end and base[at + 1] < 0x80:
        folded = (base[at] & 0x7F) | <uint32_t>base[at + 1] << 7
        position[0] = at + 2
    else:
        status = read_unsigned(base, position, end, 32, &folded)
        if status != OK:
            return status
    number[0] = <int32_t>((<uint32_t>folded >> 1) ^ (0 - (<uint32_t>folded & 1)))
    return OK


cdef inline int read_varlong(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t end, int64_t* number
) noexcept nogil:
    cdef uint64_t folded
    cdef int status
    cdef Py_ssize_t at = position[0]
    if at < end and base[at] < 0x80:
        folded = base[at]
        position[0] = at + 1
    else:
        status = read_unsigned(base, position, end, 64, &folded)
        if status != OK:
            return status
    number[0] = <int64_t>((folded >> 1) ^ (0 - (folded & 1)))
    return OK


cdef inline uint64_t fold(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ (0 - (<uint64_t>number >> 63))


cdef inline Py_ssize_t varint_size(int64_t number) noexcept nogil:
    cdef uint64_t rest = fold(number)
    cdef Py_ssize_t size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* at, int64_t number) noexcept nogil:
    cdef uint64_t rest = fold(number)
    while rest > 0x7F:
        at[0] = <uint8_t>(rest & 0x7F | 0x80)
        at += 1
        rest >>= 7
    at[0] = <uint8_t>rest
    return at + 1


cdef inline int64_t add64(int64_t left, int64_t right) noexcept nogil:
    """Wraps around, where C leaves overflow of signed numbers undefined."""
    return <int64_t>(<uint64_t>left + <uint64_t>right)


cdef inline uint64_t big_endian(const uint8_t* at, int size) noexcept nogil:
    cdef uint64_t number = 0
    cdef int index
    for index in range(size):
        number = number << 8 | at[index]
    return number


# --- Records -----------------------------------------------------------------------------------


cdef struct Places:
    # Where the parts of one record lie, as positions in its section; a length below 0 is null.
    Py_ssize_t start
    Py_ssize_t body
    Py_ssize_t after_timestamp
    Py_ssize_t key
    Py_ssize_t value
    Py_ssize_t headers
    Py_ssize_t end
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_length
    int32_t value_length
    int32_t header_count


cdef struct HeaderPlaces:
    Py_ssize_t key
    Py_ssize_t value
    Py_ssize_t end
    int32_t key_length
    int32_t value_length


cdef inline int read_varbytes(
    const uint8_t* base, Py_ssize_t* position, Py_ssize_t end, Py_ssize_t* start, int32_t* length
) noexcept nogil:
    cdef int status = read_varint(base, position, end, length)
    if status != OK:
        return status
    start[0] = position[0]
    if length[0] > 0:
        if length[0] > end - position[0]:
            return OVERRUN
        position[0] += length[0]
    return OK


cdef int read_header_at(
    const uint8_t* base, Py_ssize_t position, Py_ssize_t end, HeaderPlaces* header
) noexcept nogil:
    cdef int status = read_varbytes(base, &position, end, &header.key, &header.key_length)
    if status != OK:
        return status
    if header.key_length < 0:
        return HEADER_WITHOUT_KEY
    status = read_varbytes(base, &position, end, &header.value, &header.value_length)
    header.end = position
    return status


cdef inline int read_front(
    const uint8_t* base, Py_ssize_t start, Py_ssize_t limit, Places* record
) noexcept nogil:
    """Read a record up to its headers, of which it is only known where they start."""
    cdef int32_t length
    cdef Py_ssize_t position = start, end
    cdef int status = read_varint(base, &position, limit, &length)
    if status != OK:
        return status
    if length < 0 or length > limit - position:
        return OVERRUN
    end = position + length
    record.start = start
    record.body = position
    record.end = end
    position += 1
    status = read_varlong(base, &position, end, &record.timestamp_delta)
    if status != OK:
        return status
    record.after_timestamp = position
    status = read_varint(base, &position, end, &record.offset_delta)
    if status != OK:
        return status
    status = read_varbytes(base, &position, end, &record.key, &record.key_length)
    if status != OK:
        return status
    status = read_varbytes(base, &position, end, &record.value, &record.value_length)
    if status != OK:
        return status
    status = read_varint(base, &position, end, &record.header_count)
    if status != OK:
        return status
    record.headers = position
    return OK if record.header_count >= 0 else NEGATIVE_HEADERS


cdef int read_record(
    const uint8_t* base, Py_ssize_t start, Py_ssize_t limit, Places* record
) noexcept nogil:
    cdef HeaderPlaces header
    cdef int32_t index
    cdef int status = read_front(base, start, limit, record)
    if status != OK:
        return status
    header.end = record.headers
    for index in range(record.header_count):
        status = read_header_at(base, header.end, record.end, &header)
        if status != OK:
            return status
    return OK if header.end == record.end else WRONG_SIZE


cdef inline int check_count(Py_ssize_t size, Py_ssize_t record_count) noexcept nogil:
    if record_count < 0 or record_count > size // MIN_RECORD_BYTES:
        return TOO_FEW_BYTES
    return OK


cdef int walk(const uint8_t* base, Py_ssize_t size, Py_ssize_t record_count) noexcept nogil:
    """Check the structure of a whole section."""
    cdef Places record
    cdef Py_ssize_t index, position = 0
    cdef int status = check_count(size, record_count)
    if status != OK:
        return status
    for index in range(record_count):
        status = read_record(base, position, size, &record)
        if status != OK:
            return status
        position = record.end
    return OK if position == size else LEFT_OVER


cdef class Borrowed:
    """A foreign buffer, held for as long as this object lives."""

    cdef Py_buffer view
    cdef bint is_held
    cdef const uint8_t* bytes
    cdef Py_ssize_t size

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
        self.is_held = True
        self.bytes = <const uint8_t*>self.view.buf
        self.size = self.view.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)


# --- Batches -----------------------------------------------------------------------------------


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


# --- Records to columns ------------------------------------------------------------------------


cdef struct Cells:
    # A binary column that is written. Only columns of headers make use of their rooms.
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


cdef inline int append_cell(Cells* cells, const uint8_t* content, int32_t length) noexcept nogil:
    """Add a row; the room is there."""
    if length < 0:
        cells.validity[cells.rows >> 3] &= ~(1 << (cells.rows & 7))
        cells.nulls += 1
    else:
        if length > INT32_MAX - cells.used:
            return COLUMN_TOO_LARGE
        memcpy(cells.data + cells.used, content, length)
        cells.used += length
    cells.rows += 1
    cells.offsets[cells.rows] = <int32_t>cells.used
    return OK


cdef int make_room(Cells* cells, Py_ssize_t length) noexcept nogil:
    """Grow a column of headers by doubling, so that one more cell fits."""
    cdef Py_ssize_t room
    cdef void* grown
    if cells.rows >= INT32_MAX - 8:
        return COLUMN_TOO_LARGE
    if cells.rows >= cells.row_room:
        room = max(64, 2 * cells.row_room)
        grown = realloc(cells.offsets, (room + 1) * sizeof(int32_t))
        if grown == NULL:
            return NO_MEMORY
        cells.offsets = <int32_t*>grown
        cells.offsets[cells.rows] = <int32_t>cells.used
        grown = realloc(cells.validity, room // 8)
        if grown == NULL:
            return NO_MEMORY
        cells.validity = <uint8_t*>grown
        memset(cells.validity + cells.row_room // 8, 0xFF, (room - cells.row_room) // 8)
        cells.row_room = room
    if length > cells.data_room - cells.used:
        room = max(cells.used + length, 2 * cells.data_room)
        grown = realloc(cells.data, room)
        if grown == NULL:
            return NO_MEMORY
        cells.data = <char*>grown
        cells.data_room = room
    return OK


cdef int append_header(
    Cells* cells, const uint8_t* content, int32_t length
) noexcept nogil:
    cdef int status = make_room(cells, max(length, 0))
    return status if status != OK else append_cell(cells, content, length)


cdef int append_headers(const uint8_t* base, const Places* record, Rows* rows) noexcept nogil:
    cdef HeaderPlaces header
    cdef int32_t index
    cdef int status
    header.end = record.headers
    for index in range(record.header_count):
        status = read_header_at(base, header.end, record.end, &header)
        if status == OK:
            status = append_header(&rows.header_keys, base + header.key, header.key_length)
        if status == OK:
            status = append_header(&rows.header_values, base + header.value, header.value_length)
        if status != OK:
            return status
    return OK if header.end == record.end else WRONG_SIZE


cdef struct Batch:
    # What the records of one batch need to know of its header.
    Py_ssize_t record_count
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint has_append_time
    int16_t attributes


cdef int append_records(
    const uint8_t* base, Py_ssize_t size, const Batch* batch, int64_t first_offset, Rows* rows
) noexcept nogil:
    cdef Places record
    cdef Py_ssize_t index, position = 0
    cdef int64_t offset
    cdef int status
    for index in range(batch.record_count):
        status = read_front(base, position, size, &record)
        if status != OK:
            return status
        position = record.end
        offset = add64(batch.base_offset, record.offset_delta)
        if offset < first_offset:
            status = read_record(base, record.start, size, &record)
            if status != OK:
                return status
            continue
        rows.offsets[rows.count] = offset
        if batch.has_append_time:
            rows.timestamps[rows.count] = batch.append_time
        else:
            rows.timestamps[rows.count] = add64(batch.base_timestamp, record.timestamp_delta)
        rows.attributes[rows.count] = batch.attributes
        status = append_cell(&rows.keys, base + record.key, record.key_length)
        if status == OK:
            status = append_cell(&rows.values, base + record.value, record.value_length)
        if status == OK:
            status = append_headers(base, &record, rows)
        if status != OK:
            return status
        rows.count += 1
        rows.header_offsets[rows.count] = <int32_t>rows.header_keys.rows
    return OK if position == size else LEFT_OVER


cdef class Columns:
    """The columns that records are decoded into.

    A section has at most a row for every record of its header, and in all no more key and value
    bytes than it has bytes. So much room is made once; pages that are not needed are not touched.
    Headers are rare and grow as they come.
    """

    cdef bytearray offsets
    cdef bytearray timestamps
    cdef bytearray attributes
    cdef bytearray header_offsets
    cdef list keys
    cdef list values
    cdef Rows rows

    def __cinit__(self, Py_ssize_t row_room, Py_ssize_t data_room):
        self.offsets = uninitialized(row_room * sizeof(int64_t))
        self.timestamps = uninitialized(row_room * sizeof(int64_t))
        self.attributes = uninitialized(row_room * sizeof(int16_t))
        self.header_offsets = uninitialized((row_room + 1) * sizeof(int32_t))
        self.rows.offsets = <int64_t*>PyByteArray_AS_STRING(self.offsets)
        self.rows.timestamps = <int64_t*>PyByteArray_AS_STRING(self.timestamps)
        self.rows.attributes = <int16_t*>PyByteArray_AS_STRING(self.attributes)
        self.rows.header_offsets = <int32_t*>PyByteArray_AS_STRING(self.header_offsets)
        self.rows.header_offsets[0] = 0
        self.keys = binary_column(&self.rows.keys, row_room, data_room)
        self.values = binary_column(&self.rows.values, row_room, data_room)

    def __dealloc__(self):
        release(&self.rows.header_keys)
        release(&self.rows.header_values)

    cdef object finish(self):
        cdef Py_ssize_t count = self.rows.count
        PyByteArray_Resize(self.offsets, count * sizeof(int64_t))
        PyByteArray_Resize(self.timestamps, count * sizeof(int64_t))
        PyByteArray_Resize(self.attributes, count * sizeof(int16_t))
        PyByteArray_Resize(self.header_offsets, (count + 1) * sizeof(int32_t))
        return DecodedColumns(
            row_count=count,
            offsets=self.offsets,
            timestamps=self.timestamps,
            attributes=self.attributes,
            keys=cut_column(self.keys, &self.rows.keys),
            values=cut_column(self.values, &self.rows.values),
            headers=HeaderBuffers(
                validity=None,
                offsets=self.header_offsets,
                keys=copy_column(&self.rows.header_keys),
                values=copy_column(&self.rows.header_values),
                header_count=self.rows.header_keys.rows,
            ),
        )


cdef bytearray uninitialized(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef list binary_column(Cells* cells, Py_ssize_t row_room, Py_ssize_t data_room):
    cdef bytearray validity = uninitialized((row_room + 7) // 8)
    cdef bytearray offsets = uninitialized((row_room + 1) * sizeof(int32_t))
    cdef bytearray data = uninitialized(data_room)
    cells.validity = <uint8_t*>PyByteArray_AS_STRING(validity)
    cells.offsets = <int32_t*>PyByteArray_AS_STRING(offsets)
    cells.data = PyByteArray_AS_STRING(data)
    memset(cells.validity, 0xFF, len(validity))
    cells.offsets[0] = 0
    return [validity, offsets, data]


cdef object cut_column(list buffers, const Cells* cells):
    validity, offsets, data = buffers
    PyByteArray_Resize(validity, (cells.rows + 7) // 8)
    PyByteArray_Resize(offsets, (cells.rows + 1) * sizeof(int32_t))
    PyByteArray_Resize(data, cells.used)
    return BinaryBuffers(validity if cells.nulls else None, offsets, data)


cdef object copy_column(const Cells* cells):
    """The columns of headers are few and short; they are copied out of C's memory."""
    if cells.rows == 0:
        return BinaryBuffers(None, bytearray(sizeof(int32_t)), bytearray())
    validity = None
    if cells.nulls:
        validity = PyByteArray_FromStringAndSize(<char*>cells.validity, (cells.rows + 7) // 8)
    return BinaryBuffers(
        validity,
        PyByteArray_FromStringAndSize(<char*>cells.offsets, (cells.rows + 1) * sizeof(int32_t)),
        PyByteArray_FromStringAndSize(cells.data, cells.used),
    )


cdef void release(Cells* cells) noexcept:
    free(cells.offsets)
    free(cells.data)
    free(cells.validity)


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


def decode_sections(list sections not None, int64_t first_offset):
    """The records of many batches as columns, those before `first_offset` left out."""
    cdef Py_ssize_t rows = 0, size = 0, start, stop
    cdef Batch batch
    cdef Columns columns
    cdef Py_buffer view
    cdef const uint8_t* base
    cdef Rows* target
    cdef int status
    for _, start, stop, header in sections:
        batch = batch_of(header)
        status = check_count(stop - start, batch.record_count)
        if status != OK:
            refuse(status)
        rows += batch.record_count
        size += stop - start
    columns = Columns(rows, min(size, INT32_MAX))
    target = &columns.rows
    for buffer, start, stop, header in sections:
        batch = batch_of(header)
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            if start < 0 or stop > view.len:
                raise ValueError("a section lies within its buffer")
            base = <const uint8_t*>view.buf + start
            with nogil:
                status = append_records(base, stop - start, &batch, first_offset, target)
        finally:
            PyBuffer_Release(&view)
        if status != OK:
            refuse(status)
    return columns.finish()


# --- Columns to records ------------------------------------------------------------------------


cdef struct Column:
    # A binary column that is read; the places belong to foreign buffers.
    const uint8_t* validity
    Py_ssize_t validity_bytes
    const uint8_t* offsets
    Py_ssize_t offsets_bytes
    const uint8_t* data
    Py_ssize_t limit
    Py_ssize_t first
    bint is_wide


cdef struct Content:
    # One cell of a column. A length below zero is null.
    const uint8_t* start
    int64_t length


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
    cdef int status
    if column == NULL:
        content.length = -1
        return OK
    row += column.first
    status = is_null(column, row, &absent)
    if status != OK:
        return status
    if absent:
        content.length = -1
        return OK
    status = bounds(column, row, &start, &end)
    content.start = column.data + start
    content.length = end - start
    return status


cdef class ForeignColumn:
    """A binary column of the caller, held for as long as this object lives."""

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
            refuse(BAD_COLUMN)
        self.column.offsets = places.bytes
        self.column.offsets_bytes = places.size
        self.column.data = content.bytes
        self.column.limit = content.size if limit is None else limit
        self.column.first = first
        self.column.is_wide = is_wide


cdef ForeignColumn foreign(buffers):
    return ForeignColumn(
        buffers.validity, buffers.offsets, buffers.data, buffers.first, buffers.is_wide
    )


cdef struct Table:
    # The columns to encode. Absent columns are NULL.
    const int64_t* timestamps
    const Column* keys
    const Column* values
    const Column* header_lists
    const Column* header_keys
    const Column* header_values
    Py_ssize_t row_count


cdef struct Writing:
    # The batch being written, and the next row.
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


cdef inline uint8_t* write_varbytes(uint8_t* at, const Content* content) noexcept nogil:
    if content.length < 0:
        at[0] = 1
        return at + 1
    at = write_varint(at, content.length)
    memcpy(at, content.start, content.length)
    return at + content.length


cdef int headers_range(
    const Table* table, Py_ssize_t row, int64_t* start, int64_t* end
) noexcept nogil:
    cdef bint absent
    cdef int status
    start[0] = 0
    end[0] = 0
    if table.header_lists == NULL:
        return OK
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
        status = cell(table.header_keys, index, &content)
        if status != OK:
            return status
        if content.length < 0:
            return HEADER_WITHOUT_KEY
        size[0] += varbytes_size(&content)
        status = cell(table.header_values, index, &content)
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
        cell(table.header_keys, index, &content)
        at = write_varbytes(at, &content)
        cell(table.header_values, index, &content)
        at = write_varbytes(at, &content)
    return at


cdef int write_records(
    const Table* table, Writing* writing, Py_ssize_t batch_bytes
) noexcept nogil:
    """Write rows until all are written, the batch is full, or the buffer needs room.

    On NEED_ROOM the field `room` says how much in all.
    """
    cdef Content key, value
    cdef int64_t headers_start, headers_end, timestamp, delta
    cdef Py_ssize_t tail, body, needed
    cdef uint8_t* at
    cdef int status
    while writing.row < table.row_count:
        status = cell(table.keys, writing.row, &key)
        if status == OK:
            status = cell(table.values, writing.row, &value)
        if status == OK:
            status = headers_range(table, writing.row, &headers_start, &headers_end)
        if status == OK:
            status = headers_size(table, headers_start, headers_end, &tail)
        if status != OK:
            return status
        timestamp = table.timestamps[writing.row]
        if writing.count == 0:
            writing.base_timestamp = timestamp
            writing.max_timestamp = timestamp
        delta = add64(timestamp, <int64_t>(0 - <uint64_t>writing.base_timestamp))
        tail += varbytes_size(&key) + varbytes_size(&value)
        body = 1 + varint_size(delta) + varint_size(writing.count) + tail
        if body > INT32_MAX:
            return RECORD_TOO_LARGE
        needed = writing.used + varint_size(body) + body
        if writing.count > 0 and needed > batch_bytes:
            return FULL
        if needed > writing.room:
            writing.room = needed
            return NEED_ROOM
        at = write_varint(writing.start + writing.used, body)
        at[0] = 0
        at = write_varint(at + 1, delta)
        at = write_varint(at, writing.count)
        at = write_varbytes(at, &key)
        at = write_varbytes(at, &value)
        write_headers(at, table, headers_start, headers_end)
        writing.used = needed
        writing.max_timestamp = max(writing.max_timestamp, timestamp)
        writing.count += 1
        writing.row += 1
    return OK


def encode_batches(
    Py_ssize_t row_count,
    timestamps,
    keys,
    values,
    headers,
    *,
    template,
    Py_ssize_t batch_bytes,
):
    """Columns into whole uncompressed batches that lack only their CRC."""
    cdef bytes front = HEADER.pack(*template)
    cdef Borrowed times = Borrowed(timestamps)
    cdef ForeignColumn key_column, value_column, lists, header_keys, header_values
    cdef Table table
    cdef Writing writing
    cdef list batches = []
    memset(&table, 0, sizeof(Table))
    if times.size < row_count * <Py_ssize_t>sizeof(int64_t):
        refuse(BAD_COLUMN)
    table.timestamps = <const int64_t*>times.bytes
    table.row_count = row_count
    if keys is not None:
        key_column = foreign(keys)
        table.keys = &key_column.column
    if values is not None:
        value_column = foreign(values)
        table.values = &value_column.column
    if headers is not None:
        lists = ForeignColumn(
            headers.validity, headers.offsets, b"", headers.first, headers.is_wide, headers.header_count
        )
        header_keys = foreign(headers.keys)
        table.header_lists = &lists.column
        table.header_keys = &header_keys.column
        if headers.values is not None:
            header_values = foreign(headers.values)
            table.header_values = &header_values.column
    writing.row = 0
    writing.sequence = template.base_sequence
    while writing.row < row_count:
        batches.append(encode_batch(&table, &writing, batch_bytes, front))
    return batches


cdef object encode_batch(
    const Table* table, Writing* writing, Py_ssize_t batch_bytes, bytes front
):
    cdef Py_ssize_t room = HEADER_BYTES + min(max(batch_bytes - HEADER_BYTES, 0), FIRST_ROOM_BYTES)
    cdef bytearray batch = uninitialized(room)
    cdef int status
    writing.used = HEADER_BYTES
    writing.count = 0
    while True:
        writing.start = <uint8_t*>PyByteArray_AS_STRING(batch)
        writing.room = room
        with nogil:
            status = write_records(table, writing, batch_bytes)
        if status != NEED_ROOM:
            break
        room = max(writing.room, min(2 * room, batch_bytes))
        PyByteArray_Resize(batch, room)
    if status != OK and status != FULL:
        refuse(status)
    if writing.used - LENGTH_END > INT32_MAX:
        refuse(RECORD_TOO_LARGE)
    memcpy(writing.start, <char*>front, HEADER_BYTES)
    write_header(writing)
    PyByteArray_Resize(batch, writing.used)
    return batch


cdef inline void put_big_endian(uint8_t* at, uint64_t number, int size) noexcept nogil:
    cdef int index
    for index in range(size):
        at[index] = <uint8_t>(number >> (8 * (size - 1 - index)))


cdef void write_header(Writing* writing) noexcept nogil:
    """Put into the header what differs from batch to batch."""
    cdef uint8_t* at = writing.start
    put_big_endian(at + 8, writing.used - LENGTH_END, 4)
    put_big_endian(at + 23, writing.count - 1, 4)
    put_big_endian(at + 27, <uint64_t>writing.base_timestamp, 8)
    put_big_endian(at + 35, <uint64_t>writing.max_timestamp, 8)
    put_big_endian(at + 53, <uint32_t>writing.sequence, 4)
    put_big_endian(at + 57, writing.count, 4)
    if writing.sequence >= 0:
        writing.sequence = <int32_t>((writing.sequence + writing.count) & INT32_MAX)


# --- Compaction --------------------------------------------------------------------------------


def check_records(payload, Py_ssize_t record_count):
    """Walk the records, raise when their structure is broken, and sum up what they are."""
    cdef Borrowed source = Borrowed(payload)
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef Places record
    cdef Py_ssize_t index, position = 0
    cdef bint is_dense = True, has_null_key = False
    cdef int64_t latest = 0
    cdef int status = check_count(size, record_count)
    if status != OK:
        refuse(status)
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
        refuse(status)
    if position != size:
        refuse(LEFT_OVER)
    return RecordsSummary(bool(is_dense), bool(has_null_key), latest if record_count else None)


cdef int check_section(Borrowed source, Py_ssize_t record_count) except -1:
    """Raise unless the whole section can be read: later passes rely on it."""
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef int status
    with nogil:
        status = walk(base, size, record_count)
    if status != OK:
        refuse(status)
    return 0


def first_timestamp_delta(payload, Py_ssize_t record_count, keep):
    """The timestamp delta of the first record that a mask keeps; None when it keeps none."""
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
    """The records whose byte in `keep` is not zero, and the largest timestamp delta of them."""
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
    # A new delta takes at most ten bytes, and makes the length before it one byte longer.
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


cdef struct Digest:
    uint64_t low
    uint64_t high


cdef struct Entry:
    # An empty slot has all zeros: offsets are kept one higher, so that 0 is none.
    Digest digest
    int64_t offset_plus_one


cdef inline uint64_t rotate(uint64_t word, int bits) noexcept nogil:
    return word << bits | word >> (64 - bits)


cdef inline void sip_rounds(uint64_t* v, int rounds) noexcept nogil:
    cdef int index
    for index in range(rounds):
        v[0] += v[1]
        v[2] += v[3]
        v[1] = rotate(v[1], 13) ^ v[0]
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = rotate(v[0], 32)
        v[2] += v[1]
        v[0] += v[3]
        v[1] = rotate(v[1], 17) ^ v[2]
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = rotate(v[2], 32)


cdef inline uint64_t little_endian(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word = 0
    cdef Py_ssize_t index
    for index in range(size):
        word |= <uint64_t>at[index] << (8 * index)
    return word


cdef Digest siphash(const uint64_t* seed, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """SipHash-2-4 with 128 bits of result."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef Py_ssize_t position = 0
    cdef Digest digest
    v[0] = seed[0] ^ 0x736F6D6570736575U
    v[1] = seed[1] ^ 0x646F72616E646F6DU ^ 0xEE
    v[2] = seed[0] ^ 0x6C7967656E657261U
    v[3] = seed[1] ^ 0x7465646279746573U
    while size - position >= 8:
        word = little_endian(data + position, 8)
        v[3] ^= word
        sip_rounds(v, 2)
        v[0] ^= word
        position += 8
    word = <uint64_t>size << 56 | little_endian(data + position, size - position)
    v[3] ^= word
    sip_rounds(v, 2)
    v[0] ^= word
    v[2] ^= 0xEE
    sip_rounds(v, 4)
    digest.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    sip_rounds(v, 4)
    digest.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return digest


def siphash128(seed, data):
    """The keyed hash by which an `OffsetMap` knows its keys; here for its test vectors."""
    cdef Borrowed key = Borrowed(seed)
    cdef Borrowed source = Borrowed(data)
    cdef uint64_t words[2]
    cdef Digest digest
    assert key.size == MAP_SEED_BYTES, "the seed of an offset map has 16 bytes"
    words[0] = little_endian(key.bytes, 8)
    words[1] = little_endian(key.bytes + 8, 8)
    digest = siphash(words, source.bytes, source.size)
    return digest.low.to_bytes(8, "little") + digest.high.to_bytes(8, "little")


cdef class OffsetMap:
    """The newest offset of each key, in bounded memory: open addressing, one step at a time."""

    cdef Entry* entries
    cdef Py_ssize_t slots
    cdef Py_ssize_t size
    cdef uint64_t seed[2]
    cdef readonly Py_ssize_t capacity
    cdef public int64_t latest_offset

    def __cinit__(self, Py_ssize_t memory_bytes, double load_factor, seed):
        cdef Borrowed key = Borrowed(seed)
        assert key.size == MAP_SEED_BYTES, "the seed of an offset map has 16 bytes"
        assert 0 < load_factor < 1, "an offset map must keep some slots free"
        assert sizeof(Entry) == MAP_ENTRY_BYTES
        self.seed[0] = little_endian(key.bytes, 8)
        self.seed[1] = little_endian(key.bytes + 8, 8)
        self.slots = max(memory_bytes, 0) // MAP_ENTRY_BYTES
        self.capacity = <Py_ssize_t>(self.slots * load_factor)
        self.latest_offset = -1
        self.entries = <Entry*>calloc(self.slots + 1, sizeof(Entry))
        if self.entries == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)

    def __len__(self):
        return self.size

    cdef Entry* find(self, const uint8_t* key, Py_ssize_t length, Digest* digest) noexcept nogil:
        """The key's entry, or the empty one where it belongs; there is always an empty one."""
        cdef Py_ssize_t slot
        cdef Entry* entry
        digest[0] = siphash(self.seed, key, length)
        slot = <Py_ssize_t>(digest.low % <uint64_t>(self.slots + 1))
        while True:
            entry = self.entries + slot
            if entry.offset_plus_one == 0:
                return entry
            if entry.digest.low == digest.low and entry.digest.high == digest.high:
                return entry
            slot = 0 if slot == self.slots else slot + 1

    cdef bint insert(self, const uint8_t* key, Py_ssize_t length, int64_t offset) noexcept nogil:
        cdef Digest digest
        cdef Entry* entry = self.find(key, length, &digest)
        if entry.offset_plus_one == 0:
            if self.size >= self.capacity:
                return False
            self.size += 1
            entry.digest = digest
        entry.offset_plus_one = offset + 1
        return True

    def put(self, key, int64_t offset):
        """Remember the offset for the key; False when the map is full."""
        cdef Borrowed source = Borrowed(key)
        assert offset >= 0, "offsets are not negative"
        return bool(self.insert(source.bytes, source.size, offset))

    def get(self, key):
        """The offset last put for the key, or -1."""
        cdef Borrowed source = Borrowed(key)
        cdef Digest digest
        return self.find(source.bytes, source.size, &digest).offset_plus_one - 1


def map_records(OffsetMap offset_map not None, payload, Py_ssize_t record_count, int64_t base_offset):
    """Put the keyed records of a batch in order; how many were taken before the map was full."""
    cdef Borrowed source = Borrowed(payload)
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef Places record
    cdef Py_ssize_t index, position = 0, taken = 0
    cdef int64_t offset
    cdef int status = OK
    check_section(source, record_count)
    with nogil:
        for index in range(record_count):
            read_record(base, position, size, &record)
            position = record.end
            offset = add64(base_offset, record.offset_delta)
            if offset < 0:
                status = NEGATIVE_OFFSET
                break
            if record.key_length >= 0 and not offset_map.insert(
                base + record.key, record.key_length, offset
            ):
                break
            if offset > offset_map.latest_offset:
                offset_map.latest_offset = offset
            taken += 1
    if status != OK:
        refuse(status)
    return taken


def keep_mask(
    OffsetMap offset_map not None,
    payload,
    Py_ssize_t record_count,
    int64_t base_offset,
    bint keep_tombstones,
):
    """Which records compaction keeps (CP-3): a 0 or 1 each, how many, and how many tombstones."""
    cdef Borrowed source = Borrowed(payload)
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef Places record
    cdef Digest digest
    cdef Py_ssize_t index, position = 0, kept = 0, tombstones = 0
    cdef int64_t offset, newest
    cdef bint keeps
    check_section(source, record_count)
    cdef bytes mask = PyBytes_FromStringAndSize(NULL, record_count)
    cdef char* marks = PyBytes_AS_STRING(mask)
    with nogil:
        for index in range(record_count):
            read_record(base, position, size, &record)
            position = record.end
            offset = add64(base_offset, record.offset_delta)
            if offset > offset_map.latest_offset:
                keeps = True
            elif record.key_length < 0:
                keeps = False
            else:
                newest = offset_map.find(base + record.key, record.key_length, &digest).offset_plus_one - 1
                keeps = offset >= newest and (keep_tombstones or record.value_length >= 0)
            marks[index] = keeps
            kept += keeps
            tombstones += keeps and record.value_length < 0
    return mask, kept, tombstones


# --- Partitions --------------------------------------------------------------------------------


cdef int32_t hash_key(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t multiplier = 0x5BD1E995U
    cdef uint32_t value = 0x9747B28CU ^ <uint32_t>size
    cdef uint32_t word
    cdef Py_ssize_t position = 0
    while size - position >= 4:
        word = <uint32_t>little_endian(data + position, 4) * multiplier
        word = (word ^ word >> 24) * multiplier
        value = value * multiplier ^ word
        position += 4
    if position < size:
        value ^= <uint32_t>little_endian(data + position, size - position)
        value *= multiplier
    value = (value ^ value >> 13) * multiplier
    return <int32_t>(value ^ value >> 15)


def murmur2(data):
    """Kafka's hash of a key, as a signed 32-bit number."""
    cdef Borrowed source = Borrowed(data)
    return hash_key(source.bytes, source.size)


def murmur2_column(Py_ssize_t row_count, column):
    """The hash of every row as 32-bit numbers; 0 for a null."""
    cdef ForeignColumn keys = foreign(column)
    cdef const Column* places = &keys.column
    cdef bytearray hashes = PyByteArray_FromStringAndSize(NULL, row_count * sizeof(int32_t))
    cdef int32_t* numbers = <int32_t*>PyByteArray_AS_STRING(hashes)
    cdef Content key
    cdef Py_ssize_t row
    cdef int status = OK
    with nogil:
        for row in range(row_count):
            status = cell(places, row, &key)
            if status != OK:
                break
            numbers[row] = 0 if key.length < 0 else hash_key(key.start, key.length)
    if status != OK:
        refuse(status)
    return hashes
