"""Lag in records and in time from samples."""

import random

from headwater.common.ids import TopicPartition
from headwater.coordinator.group.group_lag import GroupLagMonitor, PartitionLag
from headwater.coordinator.group.offset_history import (
    AGE_FRACTION,
    EXACT_INTERVALS,
    MAX_SAMPLES,
    OffsetHistory,
)

INTERVAL_MS = 5_000
PARTITION = TopicPartition("orders", 0)


def test_lag_of_a_stalled_group_grows_by_the_second() -> None:
    monitor = GroupLagMonitor(INTERVAL_MS)
    # Ten records per interval, without end; the group committed 30 and stands still.
    for number in range(100):
        monitor.sample(PARTITION, number * 10, number * INTERVAL_MS)
        for second in range(5):
            now_ms = number * INTERVAL_MS + second * 1_000
            lag = monitor.lag(PARTITION, 30, now_ms)
            assert lag is not None
            if number <= 3:
                assert lag == PartitionLag(records=0, time_ms=0)
            else:
                # Record 30 was appended just after the sample at 15 s.
                assert lag.records == number * 10 - 30
                assert lag.time_ms == now_ms - 15_000
                assert not lag.is_lower_bound


def test_idle_topic_does_not_make_the_next_record_old() -> None:
    monitor = GroupLagMonitor(INTERVAL_MS)
    for number in range(1_000):
        monitor.sample(PARTITION, 50, number * INTERVAL_MS)
    monitor.sample(PARTITION, 51, 1_000 * INTERVAL_MS)
    lag = monitor.lag(PARTITION, 50, 1_000 * INTERVAL_MS)
    assert lag is not None
    assert lag.records == 1
    assert lag.time_ms <= INTERVAL_MS


def test_record_from_before_the_first_sample_has_a_lower_bound() -> None:
    monitor = GroupLagMonitor(INTERVAL_MS)
    monitor.sample(PARTITION, 100, 7_000)
    assert monitor.lag(PARTITION, 10, 9_000) == PartitionLag(
        records=90, time_ms=2_000, is_lower_bound=True
    )


def test_partition_without_samples_has_no_lag() -> None:
    assert GroupLagMonitor(INTERVAL_MS).lag(PARTITION, 10, 0) is None


def test_truncated_log_starts_over() -> None:
    monitor = GroupLagMonitor(INTERVAL_MS)
    monitor.sample(PARTITION, 100, 0)
    monitor.sample(PARTITION, 40, INTERVAL_MS)
    # The group is ahead of the log.
    assert monitor.lag(PARTITION, 60, INTERVAL_MS) == PartitionLag(records=0, time_ms=0)


def test_partitions_without_offsets_are_forgotten() -> None:
    monitor = GroupLagMonitor(INTERVAL_MS)
    other = TopicPartition("orders", 1)
    monitor.sample(PARTITION, 1, 0)
    monitor.sample(other, 1, 0)
    monitor.retain([other, TopicPartition("new", 0)])
    assert len(monitor) == 1
    assert monitor.lag(PARTITION, 0, 0) is None
    assert monitor.lag(other, 1, 0) == PartitionLag(records=0, time_ms=0)


def test_thinned_history_keeps_its_accuracy() -> None:
    rng = random.Random(7)
    history = OffsetHistory(INTERVAL_MS)
    appended = []
    end_offset, samples = 0, 2 * 24 * 3_600_000 // INTERVAL_MS
    for number in range(samples):
        # Pauses and a rare burst, so that no rate is steady.
        if rng.random() < 0.3:
            appended.append((end_offset, number * INTERVAL_MS - rng.randrange(INTERVAL_MS)))
            end_offset += 1_000_000 if rng.random() < 0.01 else 1
        history.add(number * INTERVAL_MS, end_offset)
        assert len(history) <= MAX_SAMPLES
    now_ms = (samples - 1) * INTERVAL_MS
    for offset, real_ms in appended:
        found = history.append_time(offset)
        assert found is not None
        assert not found.is_lower_bound
        age_ms = now_ms - real_ms
        is_recent = age_ms < (EXACT_INTERVALS - 1) * INTERVAL_MS
        limit_ms = INTERVAL_MS if is_recent else INTERVAL_MS + age_ms // AGE_FRACTION
        assert abs(found.time_ms - real_ms) <= limit_ms
