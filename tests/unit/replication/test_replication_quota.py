"""Replication quotas."""

from headwater.common.byte_rate_limit import ByteRateLimit
from headwater.common.ids import NodeId, TopicPartition
from headwater.replication.replication_quota import is_throttled

SECOND_MS = 1_000


def test_a_topic_lists_throttled_replicas_as_partition_and_broker_or_all() -> None:
    name = TopicPartition("t", 3)
    assert is_throttled(("*",), name, NodeId(1))
    assert is_throttled(("2:1", "3:1"), name, NodeId(1))
    assert not is_throttled(("2:1", "3:1"), name, NodeId(2))
    assert not is_throttled((), name, NodeId(1))


def test_without_a_limit_nothing_is_throttled() -> None:
    throttle = ByteRateLimit()
    throttle.record(1 << 40, 0)
    assert not throttle.is_exceeded(0)


def test_a_limit_is_exceeded_by_the_rate_of_the_last_seconds() -> None:
    throttle = ByteRateLimit(limit=100)
    throttle.record(1_000, 0)
    assert not throttle.is_exceeded(0)
    throttle.record(1, 500)
    assert throttle.is_exceeded(500)
    assert throttle.is_exceeded(10 * SECOND_MS)
    assert not throttle.is_exceeded(10 * SECOND_MS + 11)


def test_older_bytes_do_not_count() -> None:
    throttle = ByteRateLimit(limit=100)
    throttle.record(1_000_000, 0)
    assert throttle.is_exceeded(10 * SECOND_MS)
    assert not throttle.is_exceeded(11 * SECOND_MS)


def test_removing_a_limit_takes_effect_at_once() -> None:
    throttle = ByteRateLimit(limit=1)
    throttle.record(1_000_000, 0)
    throttle.limit = 1 << 40
    assert not throttle.is_exceeded(0)
