# Batch that grows record by record, for producers.

cdef enum:
    BUILDER_FIRST_BYTES = 4096


cdef class BatchBuilder:
    """See `pure_batch_builder.BatchBuilder`. Every method runs atomically under the GIL."""

    cdef bytearray buffer
    cdef Py_ssize_t capacity
    cdef Py_ssize_t limit
    cdef bint is_closed
    cdef readonly Py_ssize_t size_bytes
    cdef readonly int32_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp

    def __init__(self, Py_ssize_t limit_bytes):
        self.limit = limit_bytes
        self.capacity = max(HEADER_BYTES, min(limit_bytes, BUILDER_FIRST_BYTES))
        self.buffer = PyByteArray_FromStringAndSize(NULL, self.capacity)
        memset(PyByteArray_AS_STRING(self.buffer), 0, HEADER_BYTES)
        self.size_bytes = HEADER_BYTES
        self.base_timestamp = self.max_timestamp = -1

    def append(self, int64_t timestamp, key, value, bytes tail=b"\0"):
        cdef Content keys, values
        cdef Borrowed key_source, value_source
        if type(key) is bytes:
            keys.start = <const uint8_t*>PyBytes_AS_STRING(key)
            keys.length = len(<bytes>key)
        elif key is None:
            keys.start = NULL
            keys.length = -1
        else:
            key_source = Borrowed(key)
            keys.start = key_source.bytes
            keys.length = key_source.size
        if type(value) is bytes:
            values.start = <const uint8_t*>PyBytes_AS_STRING(value)
            values.length = len(<bytes>value)
        elif value is None:
            values.start = NULL
            values.length = -1
        else:
            value_source = Borrowed(value)
            values.start = value_source.bytes
            values.length = value_source.size
        return self.put(timestamp, &keys, &values, tail)

    cdef int32_t put(
        self, int64_t timestamp, const Content* key, const Content* value, bytes tail
    ) except -2:
        cdef int64_t delta = 0
        cdef Py_ssize_t body, total
        cdef uint8_t* at
        if self.is_closed:
            return -1
        if self.count > 0:
            delta = add64(timestamp, -self.base_timestamp)
        body = 1 + varint_size(delta) + varint_size(self.count)
        body += varbytes_size(key) + varbytes_size(value) + len(tail)
        total = varint_size(body) + body
        if self.count > 0 and self.size_bytes + total > self.limit:
            return -1
        if self.size_bytes + total > INT32_MAX:
            raise_status(RECORD_TOO_LARGE)
        if self.size_bytes + total > self.capacity:
            self.capacity = max(self.size_bytes + total, min(2 * self.capacity, self.limit))
            PyByteArray_Resize(self.buffer, self.capacity)
        at = <uint8_t*>PyByteArray_AS_STRING(self.buffer) + self.size_bytes
        at = write_varint(at, body)
        at[0] = 0
        at = write_varint(at + 1, delta)
        at = write_varint(at, self.count)
        at = write_varbytes(at, key, False)
        at = write_varbytes(at, value, False)
        memcpy(at, PyBytes_AS_STRING(tail), len(tail))
        self.size_bytes += total
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        return self.count - 1

    def close(self):
        self.is_closed = True

    def take(self):
        cdef bytearray taken = self.buffer
        self.is_closed = True
        self.buffer = bytearray()
        PyByteArray_Resize(taken, self.size_bytes)
        return taken

