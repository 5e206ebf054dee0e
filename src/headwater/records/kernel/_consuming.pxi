# Convert rows of decoded columns to consumer records.

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* (*tp_alloc)(PyTypeObject*, Py_ssize_t) except NULL
    void PyTuple_SET_ITEM(PyObject*, Py_ssize_t, PyObject*)
    PyObject* PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*) except NULL


cdef struct BinaryPlaces:
    const int32_t* offsets
    const char* data
    const uint8_t* validity


cdef BinaryPlaces places_of(list held, column):
    """Return the cells of a narrow column; `held` keeps the buffers alive."""
    cdef BinaryPlaces places
    cdef Borrowed buffer
    assert isinstance(column, BinaryBuffers), "records need values, not views"
    assert column.first == 0 and not column.is_wide, "the column must come from the decoder"
    buffer = Borrowed(column.offsets)
    held.append(buffer)
    places.offsets = <const int32_t*>buffer.bytes
    buffer = Borrowed(column.data)
    held.append(buffer)
    places.data = <const char*>buffer.bytes
    places.validity = NULL
    if column.validity is not None:
        buffer = Borrowed(column.validity)
        held.append(buffer)
        places.validity = buffer.bytes
    return places


cdef inline object cell_at(const BinaryPlaces* places, Py_ssize_t row):
    cdef int32_t start
    if places.validity != NULL and not places.validity[row >> 3] >> (row & 7) & 1:
        return None
    start = places.offsets[row]
    return PyBytes_FromStringAndSize(places.data + start, places.offsets[row + 1] - start)


cdef object headers_at(
    const BinaryPlaces* keys, const BinaryPlaces* values, Py_ssize_t first, Py_ssize_t last
):
    cdef list headers = []
    cdef Py_ssize_t index
    cdef int32_t start
    for index in range(first, last):
        start = keys.offsets[index]
        key = <object>PyUnicode_DecodeUTF8(
            keys.data + start, keys.offsets[index + 1] - start, "surrogateescape"
        )
        Py_DECREF(key)
        headers.append((key, cell_at(values, index)))
    return tuple(headers)


cdef inline void put(PyObject* record, Py_ssize_t index, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(record, index, <PyObject*>item)


def consumed_records(
    columns, Py_ssize_t start, Py_ssize_t stop, topic, partition, leader_epoch
):
    """Convert rows to records without calling Python."""
    cdef list records = [], held = []
    cdef Borrowed offsets = Borrowed(columns.offsets)
    cdef Borrowed timestamps = Borrowed(columns.timestamps)
    cdef Borrowed attributes = Borrowed(columns.attributes)
    cdef Borrowed header_offsets = Borrowed(columns.headers.offsets)
    cdef const int32_t* first_header = <const int32_t*>header_offsets.bytes
    cdef BinaryPlaces keys = places_of(held, columns.keys)
    cdef BinaryPlaces values = places_of(held, columns.values)
    cdef BinaryPlaces header_keys = places_of(held, columns.headers.keys)
    cdef BinaryPlaces header_values = places_of(held, columns.headers.values)
    cdef PyTypeObject* kind = <PyTypeObject*><PyObject*>ConsumerRecord
    cdef PyObject* record
    cdef Py_ssize_t row
    cdef tuple no_headers = ()
    cdef object create_time = TimestampType.CREATE_TIME
    cdef object append_time = TimestampType.LOG_APPEND_TIME
    if not 0 <= start <= stop <= columns.row_count:
        raise IndexError("there are no such rows")
    for row in range(start, stop):
        record = kind.tp_alloc(kind, 9)
        records.append(<object>record)
        Py_DECREF(<object>record)
        put(record, 0, topic)
        put(record, 1, partition)
        put(record, 2, (<const int64_t*>offsets.bytes)[row])
        put(record, 3, (<const int64_t*>timestamps.bytes)[row])
        if (<const int16_t*>attributes.bytes)[row] & APPEND_TIME_FLAG:
            put(record, 4, append_time)
        else:
            put(record, 4, create_time)
        put(record, 5, cell_at(&keys, row))
        put(record, 6, cell_at(&values, row))
        if first_header[row] == first_header[row + 1]:
            put(record, 7, no_headers)
        else:
            put(
                record,
                7,
                headers_at(&header_keys, &header_values, first_header[row], first_header[row + 1]),
            )
        put(record, 8, leader_epoch)
    return records
