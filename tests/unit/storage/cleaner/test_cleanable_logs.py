"""LogCleanerManager: which logs are cleaned, and over which offsets."""

from dataclasses import replace

from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.cleaner.cleanable_logs import (
    LogAge,
    SegmentAge,
    cleanable_range,
    due_logs,
    is_due,
)

COMPACTED = TopicSettings(cleanup_policy=("compact",))


def segment(base_offset: int, size_bytes: int = 100, largest: int = 500) -> SegmentAge:
    return SegmentAge(
        base_offset=base_offset,
        size_bytes=size_bytes,
        largest_timestamp_ms=largest,
        first_timestamp_ms=largest - 100,
    )


# Offsets 0 to 34; the segment at 30 is active.
LOG = LogAge(
    name="log",
    segments=(segment(0), segment(10), segment(20), segment(30)),
    first_dirty_offset=10,
    log_start_offset=0,
    last_stable_offset=35,
    log_end_offset=35,
    settings=COMPACTED,
)


def offsets(log: LogAge[str], now_ms: int = 1000) -> tuple[int, int]:
    found = cleanable_range(log, now_ms)
    return found.first_dirty_offset, found.end_offset


def test_cleanable_range_is_from_checkpoint_to_active_segment() -> None:
    """CP-1."""
    found = cleanable_range(LOG, 1000)
    assert (found.first_dirty_offset, found.end_offset) == (10, 30)
    assert (found.clean_bytes, found.dirty_bytes) == (100, 200)
    assert not found.checkpoint_is_wrong


def test_log_without_checkpoint_is_dirty_from_its_start() -> None:
    assert offsets(replace(LOG, first_dirty_offset=None, log_start_offset=4)) == (4, 30)


def test_checkpoint_outside_the_log_is_reset_to_log_start() -> None:
    """CP-1."""
    below = cleanable_range(replace(LOG, first_dirty_offset=3, log_start_offset=5), 1000)
    above = cleanable_range(replace(LOG, first_dirty_offset=36), 1000)
    assert (below.first_dirty_offset, below.checkpoint_is_wrong) == (5, True)
    assert (above.first_dirty_offset, above.checkpoint_is_wrong) == (0, True)


def test_cleanable_range_ends_with_last_whole_segment_below_last_stable_offset() -> None:
    assert offsets(replace(LOG, last_stable_offset=29)) == (10, 20)
    assert offsets(replace(LOG, last_stable_offset=20)) == (10, 20)
    assert offsets(replace(LOG, last_stable_offset=15)) == (10, 10)
    assert offsets(replace(LOG, last_stable_offset=5)) == (10, 10)


def test_segment_younger_than_min_compaction_lag_ends_the_range() -> None:
    settings = replace(COMPACTED, min_compaction_lag_ms=100)
    young = replace(
        LOG, settings=settings, segments=(segment(0), segment(10), segment(20, largest=901))
    )
    log = replace(young, segments=(*young.segments, segment(30)))
    assert offsets(log, now_ms=1000) == (10, 20)
    assert offsets(log, now_ms=1001) == (10, 30)


def test_young_segment_that_is_already_clean_does_not_end_the_range() -> None:
    settings = replace(COMPACTED, min_compaction_lag_ms=100)
    segments = (segment(0, largest=999), segment(10), segment(20), segment(30))
    assert offsets(replace(LOG, settings=settings, segments=segments)) == (10, 30)


def test_half_cleaned_segment_counts_only_as_dirty() -> None:
    found = cleanable_range(replace(LOG, first_dirty_offset=15), 1000)
    assert (found.clean_bytes, found.dirty_bytes) == (100, 200)


def test_log_is_due_above_the_dirty_ratio_and_not_at_it() -> None:
    """CP-2."""
    half = replace(LOG, segments=(segment(0, 200), *LOG.segments[1:]))
    assert cleanable_range(half, 1000).dirty_ratio == 0.5
    assert due_logs([half], 1000) == []
    assert [due.name for due in due_logs([LOG], 1000)] == ["log"]


def test_log_without_dirty_segments_is_never_due() -> None:
    settings = replace(COMPACTED, min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1)
    assert due_logs([replace(LOG, first_dirty_offset=30, settings=settings)], 10**9) == []
    assert due_logs([replace(LOG, last_stable_offset=15, settings=settings)], 10**9) == []


def test_dirty_segment_older_than_max_compaction_lag_makes_its_log_due() -> None:
    """CP-2."""
    settings = replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=50)
    log = replace(LOG, settings=settings)
    found = cleanable_range(log, 0)
    assert not is_due(log, found, 450)
    assert is_due(log, found, 451)


def test_segment_without_timestamps_has_no_age() -> None:
    settings = replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=50)
    segments = tuple(replace(each, first_timestamp_ms=-1) for each in LOG.segments)
    assert due_logs([replace(LOG, settings=settings, segments=segments)], 10**9) == []


def test_dirtiest_log_comes_first() -> None:
    """CP-2."""
    dirtier = replace(LOG, name="dirtier", first_dirty_offset=0)
    assert [due.name for due in due_logs([LOG, dirtier], 1000)] == ["dirtier", "log"]


def test_only_compacted_logs_are_due() -> None:
    """CP-9."""
    plain = replace(LOG, settings=TopicSettings())
    both = replace(LOG, settings=TopicSettings(cleanup_policy=("compact", "delete")), name="both")
    assert [due.name for due in due_logs([plain, both], 1000)] == ["both"]
