"""Walk over the records of a batch in pure Python, with every bound checked.

    record:  length VARINT | attributes 1 byte | timestamp delta VARLONG | offset delta VARINT
             | key length VARINT, key | value length VARINT, value | header count VARINT
             | { key length VARINT, key, value length VARINT, value } ...

Any negative key or value length is null, as in Kafka; a negative header key length is not.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headwater.common.exceptions import CorruptBatch
from headwater.records.codec_limits import MIN_RECORD_BYTES
from headwater.records.varints import read_varint, read_varlong

_OVERRUN = "a record runs over its end"


class RecordPlaces(NamedTuple):
    """Positions of the parts of one record; a length below zero is null."""

    start: int
    body: int
    timestamp_delta: int
    after_timestamp: int
    offset_delta: int
    after_offset: int
    key: int
    key_length: int
    value: int
    value_length: int
    header_count: int
    headers: int
    end: int


def walk_records(view: memoryview, record_count: int) -> Iterator[RecordPlaces]:
    """Yield every record of a section, checked; it must end with the last one."""
    end = len(view)
    if record_count < 0 or record_count * MIN_RECORD_BYTES > end:
        raise CorruptBatch("more records are declared than the batch has bytes for")
    position = 0
    for _ in range(record_count):
        record = _read_record(view, position, end)
        yield record
        position = record.end
    if position != end:
        raise CorruptBatch("bytes are left over after the last record")


def _read_record(view: memoryview, start: int, limit: int) -> RecordPlaces:
    length, body = read_varint(view, start, limit)
    end = body + length
    if length < 0 or end > limit:
        raise CorruptBatch(_OVERRUN)
    timestamp_delta, after_timestamp = read_varlong(view, body + 1, end)
    offset_delta, after_offset = read_varint(view, after_timestamp, end)
    key_length, key = read_varint(view, after_offset, end)
    position = _skip(key, key_length, end)
    value_length, value = read_varint(view, position, end)
    position = _skip(value, value_length, end)
    header_count, headers = read_varint(view, position, end)
    if header_count < 0:
        raise CorruptBatch("a negative number of headers")
    position = headers
    for _ in range(header_count):
        *_, position = read_record_header(view, position, end)
    if position != end:
        raise CorruptBatch("a record does not fill its declared size")
    return RecordPlaces(
        start,
        body,
        timestamp_delta,
        after_timestamp,
        offset_delta,
        after_offset,
        key,
        key_length,
        value,
        value_length,
        header_count,
        headers,
        end,
    )


def read_record_header(view: memoryview, position: int, end: int) -> tuple[int, int, int, int, int]:
    """Return start and length of a header's key and value, and the position after it."""
    key_length, key = read_varint(view, position, end)
    if key_length < 0:
        raise CorruptBatch("a header without a key")
    value_length, value = read_varint(view, _skip(key, key_length, end), end)
    return key, key_length, value, value_length, _skip(value, value_length, end)


def _skip(position: int, length: int, end: int) -> int:
    if length < 0:
        return position
    if length > end - position:
        raise CorruptBatch(_OVERRUN)
    return position + length
