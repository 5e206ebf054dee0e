"""Decode batches into record values: for tools and tests, never on the hot path."""

from collections.abc import Iterator

from headwater.records.batch_header import BatchHeader, Buffer, TimestampType
from headwater.records.payload import DEFAULT_LIMIT_BYTES, record_section
from headwater.records.record import Record
from headwater.records.record_walk import RecordPlaces, read_record_header, walk_records


def read_records(
    buffer: Buffer, header: BatchHeader, position: int = 0, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> Iterator[Record]:
    """Yield the records of the batch at a position, with absolute offsets."""
    view = memoryview(record_section(buffer, header, position, limit_bytes))
    has_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    for places in walk_records(view, header.record_count):
        timestamp = header.base_timestamp + places.timestamp_delta
        yield Record(
            key=_content(view, places.key, places.key_length),
            value=_content(view, places.value, places.value_length),
            timestamp=header.max_timestamp if has_append_time else timestamp,
            headers=tuple(_headers(view, places)),
            offset=header.base_offset + places.offset_delta,
        )


def _headers(view: memoryview, places: RecordPlaces) -> Iterator[tuple[str, bytes | None]]:
    position = places.headers
    for _ in range(places.header_count):
        key, key_length, value, value_length, position = read_record_header(
            view, position, places.end
        )
        name = bytes(view[key : key + key_length]).decode("utf-8", "surrogateescape")
        yield name, _content(view, value, value_length)


def _content(view: memoryview, start: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(view[start : start + length])
