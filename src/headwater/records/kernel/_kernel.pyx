# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Record kernel in C: works on whole record sections, no object per record.

`pure_kernel` documents every function; both must return the same results and raise the same
exceptions. Memory safety: only `read_front`, `read_header_at` and `skip_record` look into untrusted
records, and they compare every position with its limit before they read. Functions that walk a
section twice rely in the second pass on the checks of the first.

Code without the GIL returns a status; `raise_status` turns it into an exception.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from crc32c import crc32c

from headwater.common.exceptions import BatchTooLarge, CorruptBatch, DecompressionBomb
from headwater.records.kernel.buffers import (
    BinaryBuffers,
    DecodedColumns,
    HeaderBuffers,
    RecordsSummary,
    ValidationResult,
    ViewBuffers,
)
from headwater.records.checksum import check_crc
from headwater.records.consumer_record import ConsumerRecord
from headwater.records.batch_header import HEADER, BatchHeader, TimestampType, check_header
from headwater.records.kernel.batch_runs import IndexProgress, ValidRun
from headwater.records.kernel.single_produce import SingleProduce

cdef enum:
    HEADER_BYTES = 61
    LENGTH_END = 12
    CRC_START = 17
    CRC_END = 21
    CODEC_MASK = 7
    MIN_LENGTH = 49
    APPEND_TIME_FLAG = 8
    MIN_RECORD_BYTES = 7
    VIEW_BYTES = 16
    SHORT_VIEW_BYTES = 12
    MAP_ENTRY_BYTES = 24
    MAP_SEED_BYTES = 16
    FIRST_ROOM_BYTES = 65536
    PIECE_BYTES = 4194304

# Statuses. FULL and NEED_ROOM are not errors but end a run of records.
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

cdef dict CORRUPTIONS = {
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


cdef int raise_status(int status) except -1:
    if status == NO_MEMORY:
        raise MemoryError
    if status == COLUMN_TOO_LARGE:
        raise DecompressionBomb("a column would hold more than 2 GiB")
    if status == RECORD_TOO_LARGE:
        raise BatchTooLarge("a record of more than 2 GiB")
    raise CorruptBatch(CORRUPTIONS[status])

include "_numbers.pxi"
include "_walking.pxi"
include "_checksums.pxi"
include "_scanning.pxi"
include "_validating.pxi"
include "_produce.pxi"
include "_spare_memory.pxi"
include "_columns.pxi"
include "_decoding.pxi"
include "_consuming.pxi"
include "_encoding.pxi"
include "_building.pxi"
include "_filtering.pxi"
include "_offset_map.pxi"
include "_hashing.pxi"
