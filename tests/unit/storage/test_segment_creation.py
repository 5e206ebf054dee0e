"""Segment creation: roll jitter and preallocation."""

from dataclasses import replace

import pytest

from headwater.common.settings.topic_settings import TopicSettings
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.log_lab import START_MS, LogLab, records

JITTERY = TopicSettings(segment_ms=1_000, segment_jitter_ms=600)


def rolled_after_ms(lab: LogLab) -> int:
    """Return the age of the active segment when an append rolls it."""
    base_offset = lab.log.local_log.segments.active.base_offset
    for age_ms in range(0, 2_000, 10):
        lab.append(records(b"v", timestamp=START_MS + age_ms))
        if lab.log.local_log.segments.active.base_offset != base_offset:
            return age_ms
    raise AssertionError("the segment was never rolled")


def test_segments_roll_at_different_ages_below_segment_ms() -> None:
    """RL-1"""
    ages = [rolled_after_ms(LogLab(JITTERY, seed=seed)) for seed in range(20)]
    assert all(400 < age_ms <= 1_010 for age_ms in ages)
    assert len(dict.fromkeys(ages)) > 5


def test_segment_keeps_its_jitter() -> None:
    lab = LogLab(JITTERY)
    before = lab.log.local_log.segments.active.roll_jitter_ms
    lab.log.configure(replace(JITTERY, segment_jitter_ms=0))
    assert lab.log.local_log.segments.active.roll_jitter_ms == before > 0
    lab.append(1)
    lab.log.roll(START_MS)
    assert lab.log.local_log.segments.active.roll_jitter_ms == 0


def test_jitter_beyond_segment_ms_leaves_every_segment_some_time() -> None:
    settings = TopicSettings(
        cleanup_policy=("compact",), max_compaction_lag_ms=50, segment_jitter_ms=10**9
    )
    for seed in range(20):
        segment = LogLab(settings, seed=seed).log.local_log.segments.active
        assert 0 <= segment.roll_jitter_ms < 50


@pytest.mark.parametrize("preallocate", [True, False])
def test_preallocate_reserves_space_for_the_active_segment(preallocate: bool) -> None:
    lab = LogLab(TopicSettings(segment_bytes=500, preallocate=preallocate))
    disk = lab.disk
    assert isinstance(disk, LossyDisk)
    for _ in range(10):
        lab.append(2)
    paths = [segment.log.path for segment in lab.log.local_log.segments]
    assert len(paths) > 1
    assert disk.preallocated == ({paths[-1]: 500} if preallocate else {})


def test_unused_reservation_is_released_by_roll_and_shutdown() -> None:
    lab = LogLab(TopicSettings(preallocate=True))
    disk = lab.disk
    assert isinstance(disk, LossyDisk)
    lab.append(2)
    lab.log.roll(START_MS)
    lab.append(2)
    second = lab.log.local_log.segments.active.log.path
    assert list(disk.preallocated) == [second]
    lab.reopen()
    assert disk.preallocated == {}
    assert [offset for offset, _ in lab.contents()] == [0, 1, 2, 3]
