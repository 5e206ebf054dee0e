"""Records as rows of a page, and single records."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.common.ids import TopicPartition
from headwater.console.connections import Connections
from headwater.console.console_errors import not_found
from headwater.console.views.record_decoder import ReadRegistered, Shown, shown
from headwater.console.views.record_filter import Word
from headwater.console.views.record_pages import RecordPage, write_cursor
from headwater.records.batch_header import TimestampType
from headwater.records.consumer_record import ConsumerRecord

LIST_CHARS_MAX: Final = 8_000
WHOLE_CHARS_MAX: Final = 1_000_000
HEADERS_MAX: Final = 100
HEADER_LIST_CHARS_MAX: Final = 500
ONE_RECORD_S: Final = 5.0

_REGISTERED_FORMATS: Final = frozenset({"auto", "avro", "json", "protobuf"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderRow:
    name: str
    value: Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """A rendered record."""

    partition: int
    offset: int
    timestamp_ms: int | None
    is_append_time: bool
    key: Shown
    value: Shown
    headers: tuple[HeaderRow, ...]
    all_headers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordList:
    """A page of records, newest last, with cursors to older and newer ones."""

    topic: str
    partitions: int
    records: tuple[RecordRow, ...]
    older: str | None
    newer: str | None
    looked_at: int
    ended_early: bool
    offline: tuple[int, ...]
    """Partitions without a leader, which are omitted."""
    wish: "RecordQuery"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """Parameters of the records page."""

    start: str = "newest"
    """newest, oldest, offset or time."""
    at: str = ""
    partition: int | None = None
    limit: int = 50
    filter: str = ""
    within: str = "anywhere"
    """Where to search the filter's text: anywhere, key, value or headers."""
    key_format: str = "auto"
    value_format: str = "auto"
    committed_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDetail:
    """One record in full, and the adjacent offsets."""

    topic: str
    record: RecordRow
    previous: int | None
    next: int | None
    key_format: str
    value_format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBytes:
    """A key or a value as stored, with a file name."""

    content: bytes
    file_name: str


def filter_of(
    connections: Connections, text: str, *, place: str, key_format: str, value_format: str
) -> Word:
    """Build the filter. Deserializes keys and values if their display format would."""
    read = connections.registered() if text else None
    return Word.of(
        text,
        place=place,
        read_key=read if key_format in _REGISTERED_FORMATS else None,
        read_value=read if value_format in _REGISTERED_FORMATS else None,
    )


def record_row(
    record: ConsumerRecord,
    *,
    key_format: str,
    value_format: str,
    chars_max: int,
    read: ReadRegistered | None,
) -> RecordRow:
    # In lists, headers are cut shorter, so that a hundred headers do not outweigh the value.
    header_chars_max = chars_max if chars_max == WHOLE_CHARS_MAX else HEADER_LIST_CHARS_MAX
    return RecordRow(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
        is_append_time=record.timestamp_type is TimestampType.LOG_APPEND_TIME,
        key=shown(record.key, key_format, chars_max=chars_max, read=read),
        value=shown(record.value, value_format, chars_max=chars_max, read=read),
        headers=tuple(
            HeaderRow(name=name, value=shown(value, "auto", chars_max=header_chars_max))
            for name, value in record.headers[:HEADERS_MAX]
        ),
        all_headers=len(record.headers),
    )


async def record_rows(
    connections: Connections,
    records: Iterable[ConsumerRecord],
    *,
    key_format: str,
    value_format: str,
    chars_max: int = LIST_CHARS_MAX,
) -> tuple[RecordRow, ...]:
    """Render in a thread: this may query the registry, and large values take time."""
    chosen = tuple(records)
    has_schemas = not _REGISTERED_FORMATS.isdisjoint((key_format, value_format))
    read = connections.registered() if has_schemas else None

    def rows() -> tuple[RecordRow, ...]:
        return tuple(
            record_row(
                record,
                key_format=key_format,
                value_format=value_format,
                chars_max=chars_max,
                read=read,
            )
            for record in chosen
        )

    return await asyncio.to_thread(rows)


def older_and_newer(
    page: RecordPage, edges: Mapping[int, tuple[int, int]]
) -> tuple[str | None, str | None]:
    """Cursors before and after a page, if there are more records."""
    has_older = any(low > edges[number][0] for number, low in page.lows.items())
    has_newer = any(high < edges[number][1] for number, high in page.highs.items())
    return (
        write_cursor(page.lows) if has_older else None,
        write_cursor(page.highs) if has_newer else None,
    )


async def one_record(
    connections: Connections, place: TopicPartition, offset: int
) -> ConsumerRecord:
    """Fetch the record at an offset. Raises `ConsoleError` if it does not exist."""
    async with connections.consumer() as consumer:
        consumer.assign([place])
        consumer.seek(place, offset)
        found: Sequence[ConsumerRecord] = await consumer.poll(ONE_RECORD_S)
    if found and found[0].offset == offset:
        return found[0]
    raise not_found(f"{place} has no record at offset {offset}. It may have been deleted.")
