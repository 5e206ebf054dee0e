"""LogCleanerManager: choose logs to clean and their offsets (CP-1, CP-2). Pure.

Note: the range ends at the base offset of a segment. If the last stable offset or the compaction
lag falls inside a segment, the whole segment waits for a later round, because only whole segments
are replaced.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.common.settings.topic_settings import TopicSettings

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentAge:
    """Timestamps and sizes of a segment that decide whether it can be cleaned.

    `largest_timestamp_ms` is the file's modification time if no record has a timestamp;
    `first_timestamp_ms` is the largest timestamp of the first batch, or -1.
    """

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    first_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAge(Generic[Name]):
    """State of one log. The last of `segments` is the active one."""

    name: Name
    segments: tuple[SegmentAge, ...]
    first_dirty_offset: int | None
    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int
    settings: TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanableRange:
    """Dirty offsets [first_dirty_offset, end_offset) that a cleaning may work on."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    checkpoint_is_wrong: bool

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


@dataclass(frozen=True, slots=True)
class DueLog(Generic[Name]):
    """Log to clean now, with its cleanable range."""

    name: Name
    cleanable: CleanableRange


def due_logs(logs: Iterable[LogAge[Name]], now_ms: int) -> list[DueLog[Name]]:
    """Return the logs to clean now, highest dirty ratio first (CP-2)."""
    due = []
    for log in logs:
        if not log.settings.is_compacted:
            continue
        cleanable = cleanable_range(log, now_ms)
        if is_due(log, cleanable, now_ms):
            due.append(DueLog(log.name, cleanable))
    due.sort(key=lambda each: each.cleanable.dirty_ratio, reverse=True)
    return due


def cleanable_range(log: LogAge[Name], now_ms: int) -> CleanableRange:
    """Return the cleanable range (CP-1); empty if nothing can be cleaned."""
    assert log.segments, "a log always has its active segment"
    checkpoint = log.first_dirty_offset
    # A checkpoint beyond the log end means that the log lost its end: nothing is known to be clean.
    is_wrong = checkpoint is not None and not (
        log.log_start_offset <= checkpoint <= log.log_end_offset
    )
    first_dirty = log.log_start_offset if checkpoint is None or is_wrong else checkpoint
    end = _first_uncleanable_base(log, first_dirty, now_ms)
    clean_bytes = 0
    dirty_bytes = 0
    for segment, next_base in _with_next_base(log):
        if segment.base_offset >= end:
            break
        # A segment that the last round did not finish counts only as dirty.
        if next_base > first_dirty:
            dirty_bytes += segment.size_bytes
        else:
            clean_bytes += segment.size_bytes
    return CleanableRange(
        first_dirty_offset=first_dirty,
        end_offset=max(first_dirty, end),
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        checkpoint_is_wrong=is_wrong,
    )


def is_due(log: LogAge[Name], cleanable: CleanableRange, now_ms: int) -> bool:
    """Whether min.cleanable.dirty.ratio or max.compaction.lag.ms is exceeded (CP-2)."""
    if cleanable.dirty_bytes == 0:
        return False
    if cleanable.dirty_ratio > log.settings.min_cleanable_dirty_ratio:
        return True
    too_old_ms = now_ms - log.settings.max_compaction_lag_ms
    return any(
        0 < segment.first_timestamp_ms < too_old_ms
        for segment in _dirty_inactive(log, cleanable.first_dirty_offset)
    )


def _first_uncleanable_base(log: LogAge[Name], first_dirty: int, now_ms: int) -> int:
    bound = min(log.last_stable_offset, log.segments[-1].base_offset)
    lag_ms = log.settings.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _dirty_inactive(log, first_dirty):
            if segment.largest_timestamp_ms > now_ms - lag_ms:
                bound = min(bound, segment.base_offset)
                break
    bases = [segment.base_offset for segment in log.segments if segment.base_offset <= bound]
    return bases[-1] if bases else log.segments[0].base_offset


def _dirty_inactive(log: LogAge[Name], first_dirty: int) -> Iterable[SegmentAge]:
    return (segment for segment, next_base in _with_next_base(log) if next_base > first_dirty)


def _with_next_base(log: LogAge[Name]) -> Iterable[tuple[SegmentAge, int]]:
    """Yield every inactive segment with the base offset of the next one."""
    segments = log.segments
    return (
        (segments[index], segments[index + 1].base_offset) for index in range(len(segments) - 1)
    )
