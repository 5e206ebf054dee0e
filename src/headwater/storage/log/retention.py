"""Segments that exceed retention.ms, retention.bytes or the log start. Pure.

Whole segments only, oldest first, and only segments completely below the high watermark (RT-1).
"""

from collections.abc import Iterable, Sequence

from headwater.common.ids import NO_TIMESTAMP
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.log.segment import LogSegment


def expired_count(
    segments: Sequence[LogSegment],
    settings: TopicSettings,
    *,
    log_start_offset: int,
    high_watermark: int,
    end_offset: int,
    now_ms: int,
) -> int:
    """Return how many first segments to delete; all only if the active one expired."""
    removable = _below_watermark(segments, high_watermark, end_offset)
    by_start = _below_start(segments[:removable], segments, log_start_offset)
    if not settings.is_deleted:
        return by_start
    return max(
        by_start,
        _by_time(segments[:removable], settings.retention_ms, now_ms),
        _by_size(segments[:removable], segments, settings.retention_bytes),
    )


def _below_watermark(segments: Sequence[LogSegment], high_watermark: int, end_offset: int) -> int:
    """An empty last segment stays, or every run would replace it with another (RT-4)."""
    ends = [segment.base_offset for segment in segments[1:]]
    if segments[-1].size:
        ends.append(end_offset)
    return _leading(end <= high_watermark for end in ends)


def _below_start(
    removable: Sequence[LogSegment], segments: Sequence[LogSegment], log_start_offset: int
) -> int:
    following = [segment.base_offset for segment in segments[1 : len(removable) + 1]]
    return _leading(base <= log_start_offset for base in following)


def _by_time(removable: Sequence[LogSegment], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    return _leading(now_ms - _age_basis_ms(segment) > retention_ms for segment in removable)


def _by_size(
    removable: Sequence[LogSegment], segments: Sequence[LogSegment], retention_bytes: int
) -> int:
    """Count segments over retention.bytes (RT-3)."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    for segment in removable:
        if excess < segment.size:
            break
        excess -= segment.size
        count += 1
    return count


def _age_basis_ms(segment: LogSegment) -> int:
    """Return the largest timestamp; the file's modification time without one (RT-2)."""
    timestamp = segment.largest_timestamp
    return segment.created_ms if timestamp == NO_TIMESTAMP else timestamp


def _leading(conditions: Iterable[bool]) -> int:
    count = 0
    for holds in conditions:
        if not holds:
            break
        count += 1
    return count
