"""Which partition a record goes to. Pure: randomness comes as dice.

A record with a key goes where Kafka's own producer would send it: murmur2 of the key. One without
a key sticks to a partition until a batch of it is full, and then moves on (KIP-480, KIP-794); so
few large batches are made, not many small ones. Where partitions have queues of different length,
the short ones are more likely to be next.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from headwater.common.exceptions import InvalidSetting
from headwater.common.ports import Random

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""A user's choice: topic, serialized key and value, and how many partitions there are."""

_ROUND_ROBIN = ("round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner")


class StickyPartition:
    """Where records without a key go at present, of one topic."""

    __slots__ = ("_is_adaptive", "_rng", "partition", "produced_bytes")

    def __init__(self, rng: Random, *, is_adaptive: bool) -> None:
        self._rng = rng
        self._is_adaptive = is_adaptive
        self.partition = -1
        self.produced_bytes = 0

    def move(self, available: Sequence[int], queued: Sequence[int], count: int) -> int:
        """Choose the next partition.

        `available` are those with a leader; `queued` says how many batches wait in each of them.
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
        """The partition is gone; the next record chooses another."""
        self.partition = -1

    def _weighted(self, queued: Sequence[int]) -> int:
        """Each as likely as the longest queue is longer than it, and never impossible."""
        longest = max(queued) + 1
        totals = list(accumulate(longest - each for each in queued))
        return bisect_right(totals, self._rng.below(totals[-1]))


class RoundRobin:
    """A partitioner that takes all partitions of a topic in turn, whatever the key."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        del key, value
        turn = self._next.get(topic, -1) + 1
        self._next[topic] = turn
        return turn % count


def partitioner(given: object) -> Partitioner | None:
    """The partitioner that `partitioner.class` names; None for Kafka's usual way."""
    if given is None or given == "default":
        return None
    if given in _ROUND_ROBIN:
        return RoundRobin()
    if not callable(given):
        raise InvalidSetting(
            f"partitioner.class must be a function, default or round_robin, and not {given!r}"
        )
    return given
