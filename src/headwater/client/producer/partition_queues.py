"""Queues of batches, one per partition, and the state of their topics.

Note: `open_append` and `partition_count` are read without the lock, so they are replaced in one
step, after everything that they refer to.
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
"""Appends a record to a batch: returns its index in the batch, or -1 if the batch is full."""


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """The batches of one partition. The last one may still be open."""

    topic: "TopicQueues"
    partition: int
    batches: deque[ProducerBatch] = field(default_factory=deque)
    open: ProducerBatch | None = None
    # The open batch and its append function, read in one step without the lock.
    open_append: tuple[ProducerBatch, Append] | None = None
    sequences: PartitionSequences = field(default_factory=PartitionSequences)
    in_flight_count: int = 0
    not_before_ms: int = 0

    @property
    def name(self) -> str:
        return self.topic.name


PlacedBatch = tuple[PartitionQueue, ProducerBatch]
"""A whole batch and the queue of its partition."""


@dataclass(slots=True, eq=False)
class TopicQueues:
    name: str
    sticky: StickyPartition
    queues: list[PartitionQueue] = field(default_factory=list)
    partition_count: int = 0
    """The current number of partitions. Queues beyond it only drain or fail. 0 while the topic is
    not in the metadata."""
    available: Sequence[int] = ()
    """Partitions with a leader; empty while unknown."""
    # Estimated compression ratio of this topic.
    ratio: float = 1.0

    def resize(self, partitions: int, available: Sequence[int] = ()) -> None:
        """Set the number of partitions: a topic grows, or is recreated with fewer.

        The queue of a removed partition stays, because it may contain records.
        """
        for partition in range(len(self.queues), partitions):
            self.queues.append(PartitionQueue(self, partition))
        # Set last, because it is read without the lock.
        self.partition_count = partitions
        self.available = available
        if self.sticky.partition >= partitions:
            self.sticky.leave()

    @property
    def choice_count(self) -> int:
        """The number of partitions to choose from for a record that has metadata.

        If the topic has just disappeared, the former number: the record fails with the others.
        """
        return self.partition_count or len(self.queues)

    def move_sticky(self) -> int:
        queued = [len(self.queues[each].batches) for each in self.available]
        return self.sticky.move(self.available, queued, self.choice_count)

    def learn_ratio(self, plain_bytes: int, packed_bytes: int) -> None:
        """Update the estimate as Kafka: up at once, down slowly, against large batches."""
        seen = packed_bytes / max(plain_bytes, 1)
        if seen > self.ratio:
            self.ratio = max(self.ratio + _RATIO_STEP_UP, seen)
        else:
            self.ratio = max(self.ratio - _RATIO_STEP_DOWN, seen)
        self.ratio = min(self.ratio, 1.0)
