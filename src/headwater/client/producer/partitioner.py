"""Choose the partition of a record, as Kafka's BuiltInPartitioner. Pure.

A record with a key goes to the partition of Kafka's own producer: murmur2 of the key. A record
without a key goes to the sticky partition, which changes when a batch is full (KIP-480, KIP-794);
this gives few large batches instead of many small ones. With adaptive partitioning, partitions with
short queues are more likely to be next.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from headwater.common.exceptions import InvalidSetting
from headwater.common.ports import Random
from headwater.records.kernel import murmur2

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""A custom partitioner: topic, serialized key and value, and the number of partitions."""

POSITIVE: Final = 0x7FFFFFFF
"""Clears the sign of a hash, as Kafka's Utils.toPositive."""

_ROUND_ROBIN = ("round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner")


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Kafka's choice for a key: positive murmur2 hash modulo the partition count."""
    return (murmur2(key) & POSITIVE) % partition_count


class StickyPartition:
    """The current partition for records without a key, of one topic."""

    __slots__ = ("_is_adaptive", "_rng", "partition", "produced_bytes")

    def __init__(self, rng: Random, *, is_adaptive: bool) -> None:
        self._rng = rng
        self._is_adaptive = is_adaptive
        self.partition = -1
        self.produced_bytes = 0

    def move(self, available: Sequence[int], queued: Sequence[int], count: int) -> int:
        """Choose the next partition.

        `available` are partitions with a leader; `queued` has the number of batches in each queue.
        """
        if not available:
            self.partition = self._rng.below(count)
        elif self._is_adaptive and len(available) > 1:
            self.partition = available[self._weighted(queued)]
        else:
            self.partition = available[self._rng.below(len(available))]
        self.produced_bytes = 0
        return self.partition

    def leave(self) -> None:
        """The partition no longer exists; the next record chooses another."""
        self.partition = -1

    def _weighted(self, queued: Sequence[int]) -> int:
        """Choose an index, weighted by how much shorter its queue is than the longest."""
        longest = max(queued) + 1
        totals = list(accumulate(longest - each for each in queued))
        return bisect_right(totals, self._rng.below(totals[-1]))


class RoundRobin:
    """Takes all partitions of a topic in turn, whatever the key."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        del key, value
        turn = self._next.get(topic, -1) + 1
        self._next[topic] = turn
        return turn % count


def partitioner(given: object) -> Partitioner | None:
    """The partitioner of `partitioner.class`; None for the default."""
    if given is None or given == "default":
        return None
    if given in _ROUND_ROBIN:
        return RoundRobin()
    if not callable(given):
        raise InvalidSetting(
            f"partitioner.class must be a function, default or round_robin, not {given!r}"
        )
    return given
