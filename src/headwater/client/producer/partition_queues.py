"""Where batches wait: a queue per partition, and what is known of their topic.

What a reader would get wrong: `way_in` and `partition_count` are read by callers who hold no lock,
so they are changed in one step, and after all that they promise.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.client.producer.partitioner import StickyPartition
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.transactions.partition_sequences import PartitionSequences

_RATIO_STEP_UP = 0.05
_RATIO_STEP_DOWN = 0.005

Append = Callable[[int, bytes | None, bytes | None, bytes], int]
"""Adds a record to a batch: its number in the batch, or -1 if the batch takes no more."""


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """The batches of one partition. The last one may still be open for records."""

    topic: "TopicQueues"
    partition: int
    batches: deque[ProducerBatch] = field(default_factory=deque)
    open: ProducerBatch | None = None
    # The open batch and its way in, read in one step by callers who hold no lock.
    way_in: tuple[ProducerBatch, Append] | None = None
    sequences: PartitionSequences = field(default_factory=PartitionSequences)
    in_flight_count: int = 0
    not_before_ms: int = 0

    @property
    def name(self) -> str:
        return self.topic.name


PlacedBatch = tuple[PartitionQueue, ProducerBatch]
"""A whole batch and the partition that it is for."""


@dataclass(slots=True, eq=False)
class TopicQueues:
    """The partitions of one topic."""

    name: str
    sticky: StickyPartition
    queues: list[PartitionQueue] = field(default_factory=list)
    partition_count: int = 0
    """How many partitions there are at present: of `queues` those, the rest only drains or fails.
    0 while the topic is not in the metadata."""
    available: Sequence[int] = ()
    """Partitions that have a leader; empty while that is not known."""
    # How small compression makes records of this topic, as experience has it.
    ratio: float = 1.0

    def resize(self, partitions: int, available: Sequence[int] = ()) -> None:
        """So many partitions from now on: a topic grows, or is deleted and made anew with fewer.

        The queue of a partition that is gone stays, since records may wait in it.
        """
        for partition in range(len(self.queues), partitions):
            self.queues.append(PartitionQueue(self, partition))
        # Last, because it is read without the lock: what it counts must be there.
        self.partition_count = partitions
        self.available = available
        if self.sticky.partition >= partitions:
            self.sticky.leave()

    @property
    def choice_count(self) -> int:
        """Among how many partitions a record has its choice that is past waiting for metadata.

        Where the topic has just gone, as many as ever: the record fails with what waits already.
        """
        return self.partition_count or len(self.queues)

    def move_sticky(self) -> int:
        queued = [len(self.queues[each].batches) for each in self.available]
        return self.sticky.move(self.available, queued, self.choice_count)

    def learn_ratio(self, plain_bytes: int, packed_bytes: int) -> None:
        """Kafka does this: up at once, down slowly, so that batches are rarely too large."""
        seen = packed_bytes / max(plain_bytes, 1)
        if seen > self.ratio:
            self.ratio = max(self.ratio + _RATIO_STEP_UP, seen)
        else:
            self.ratio = max(self.ratio - _RATIO_STEP_DOWN, seen)
        self.ratio = min(self.ratio, 1.0)
