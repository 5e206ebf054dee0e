"""Find records by timestamp, for ListOffsets.

Timestamps need not rise with offsets, so a lookup finds the *first* record by offset whose
timestamp is large enough. The time index only says where the search may start (LO-3).
"""

from collections.abc import Iterator
from typing import NamedTuple

from headwater.records.record import Record
from headwater.records.record_reader import read_records
from headwater.storage.log.batch_walk import PlacedHeader
from headwater.storage.log.segment import LogSegment
from headwater.storage.log.segments import LogSegments


class TimedOffset(NamedTuple):
    """Offset and timestamp of a record, and the leader epoch that wrote it."""

    offset: int
    timestamp: int
    leader_epoch: int


def first_since(segments: LogSegments, timestamp: int, log_start_offset: int) -> TimedOffset | None:
    """Return the first record with at least this timestamp (LO-2)."""
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


def with_largest_timestamp(segments: LogSegments, log_start_offset: int) -> TimedOffset | None:
    """Return the first record with the largest timestamp, or None (LO-1: -3)."""
    latest: TimedOffset | None = None
    for segment in segments.since(log_start_offset):
        if latest is None or segment.largest_timestamp > latest.timestamp:
            found = _latest_in(segment, log_start_offset)
            if found and (latest is None or found.timestamp > latest.timestamp):
                latest = found
    return latest


def _latest_in(segment: LogSegment, log_start_offset: int) -> TimedOffset | None:
    """Return the record with the segment's largest timestamp, usually from one batch.

    That record may have been deleted, or compacted away while its batch was kept.
    """
    placed = segment.locate(segment.offset_of_largest_timestamp)
    if placed is not None:
        latest = _latest_of(_records(segment, placed), placed, log_start_offset)
        if latest is not None and latest.timestamp == segment.largest_timestamp:
            return latest
    latest = None
    for placed in segment.headers_since(log_start_offset):
        if latest is None or placed.header.max_timestamp > latest.timestamp:
            found = _latest_of(_records(segment, placed), placed, log_start_offset)
            if found and (latest is None or found.timestamp > latest.timestamp):
                latest = found
    return latest


def _latest_of(
    records: Iterator[Record], placed: PlacedHeader, log_start_offset: int
) -> TimedOffset | None:
    readable = [record for record in records if _offset(record) >= log_start_offset]
    if not readable:
        return None
    # `max` returns the first of several with the same timestamp.
    return _timed(max(readable, key=lambda record: record.timestamp), placed)


def _records(segment: LogSegment, placed: PlacedHeader) -> Iterator[Record]:
    batch = segment.log.file().read(placed.header.size_bytes, placed.position)
    return read_records(batch, placed.header)


def _timed(record: Record, placed: PlacedHeader) -> TimedOffset:
    return TimedOffset(_offset(record), record.timestamp, placed.header.leader_epoch)


def _offset(record: Record) -> int:
    assert record.offset is not None, "a record that was read has its offset"
    return record.offset
