"""Finding records by time: what ListOffsets asks of a log.

Timestamps need not rise with offsets, so a look-up is for the *first* record, by offset, that is
at least so late. The time index only says where the search may begin (LO-3).
"""

from collections.abc import Iterator
from typing import NamedTuple

from headwater.records.reading import read_records
from headwater.records.record import Record
from headwater.storage.batch_walk import PlacedHeader
from headwater.storage.segment import Segment
from headwater.storage.segments import Segments


class TimedOffset(NamedTuple):
    """A record's offset and time, and the leader epoch that wrote it."""

    offset: int
    timestamp: int
    leader_epoch: int


def first_since(segments: Segments, timestamp: int, log_start_offset: int) -> TimedOffset | None:
    """The first record at or after the log's start whose timestamp is at least this (LO-2)."""
    for segment in segments.since(log_start_offset):
        if segment.largest_timestamp < timestamp:
            continue
        start_offset = max(segment.time_index.offset_before(timestamp), log_start_offset)
        for placed in segment.headers_since(start_offset):
            if placed.header.max_timestamp < timestamp:
                continue
            for record in _records(segment, placed):
                if record.timestamp >= timestamp and _offset(record) >= log_start_offset:
                    return _timed(record, placed)
    return None


def with_largest_timestamp(segments: Segments, log_start_offset: int) -> TimedOffset | None:
    """The first record that carries the log's largest timestamp (LO-1, -3); None when empty."""
    latest: Segment | None = None
    for segment in segments.since(log_start_offset):
        if segment.size and (
            latest is None or segment.largest_timestamp > latest.largest_timestamp
        ):
            latest = segment
    if latest is None:
        return None
    return first_since(segments, latest.largest_timestamp, log_start_offset)


def _records(segment: Segment, placed: PlacedHeader) -> Iterator[Record]:
    batch = segment.log.file().read(placed.header.size_bytes, placed.position)
    return read_records(batch, placed.header)


def _timed(record: Record, placed: PlacedHeader) -> TimedOffset:
    return TimedOffset(_offset(record), record.timestamp, placed.header.leader_epoch)


def _offset(record: Record) -> int:
    assert record.offset is not None, "a record that was read has its offset"
    return record.offset
