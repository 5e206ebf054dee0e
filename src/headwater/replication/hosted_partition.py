"""One partition that this broker holds: its place in the cluster, its log, and who waits for it.

The log is opened, or made, when it is first needed: a topic of a thousand partitions exists at
once, and its folders come as they are used or in the background.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headwater.cluster.image import Partition
from headwater.model.errors import ErrorCode
from headwater.model.ids import NodeId, TopicId, TopicPartition
from headwater.replication.transaction_guard import TransactionGuard
from headwater.security.authorization import Resource, ResourceKind
from headwater.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from headwater.replication.preparing import WaitingBatch

OpenLog = Callable[["HostedPartition"], PartitionLog]


class Reader(Protocol):
    """A request that waits for bytes to read."""

    def more_to_read(self, size_bytes: int) -> None:
        """So many bytes more can be read, or, with 0, something else has changed."""


class HostedTopic:
    """What the partitions of a topic share."""

    __slots__ = ("bytes_in", "bytes_out", "name", "records_in", "resource", "topic_id")

    def __init__(self, name: str, topic_id: TopicId) -> None:
        self.name = name
        self.topic_id = topic_id
        # What a client needs rights to, made once and asked about with every request.
        self.resource = Resource(ResourceKind.TOPIC, name)
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0


class HostedPartition:
    """See the module. For the loop's thread only."""

    __slots__ = (
        "_is_led",
        "_node_id",
        "_open_log",
        "guard",
        "is_deleted",
        "log",
        "name",
        "readers",
        "state",
        "topic",
        "waiting",
    )

    def __init__(
        self,
        topic: HostedTopic,
        number: int,
        state: Partition,
        *,
        node_id: NodeId,
        open_log: OpenLog,
    ) -> None:
        self.topic = topic
        self.name = TopicPartition(topic.name, number)
        self.log: PartitionLog | None = None
        self.readers: dict[Reader, None] = {}
        # Batches that are being prepared, and those that came after them (see `preparing`).
        self.waiting: deque[WaitingBatch] = deque()
        # Made with the first transaction (see `transactional_batches`).
        self.guard: TransactionGuard | None = None
        self.is_deleted = False
        self._node_id = node_id
        self._open_log = open_log
        self.place(state)

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    def place(self, state: Partition) -> None:
        """The cluster has said who holds and who leads it."""
        self.state = state
        self._is_led = state.leader == self._node_id
        if self.log is not None:
            self._lead(self.log)
        self.notify(0)

    def opened(self) -> PartitionLog:
        """Its log. `StorageError` where the disk failed, `UnreadableLog` where it is damaged."""
        if self.log is None:
            log = self._open_log(self)
            self._lead(log)
            self.log = log
        return self.log

    def refuse(self, current_leader_epoch: int = -1) -> ErrorCode | None:
        """Why a client's request does not belong here; the epoch is judged first (EP-4)."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.state.leader_epoch:
            if current_leader_epoch < self.state.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return None if self._is_led else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def lacks_replicas(self, min_insync_replicas: int) -> bool:
        """Whether fewer are in sync than an acks=all write needs (MIN-1)."""
        return len(self.state.isr) < min(min_insync_replicas, len(self.state.replicas))

    def advanced(self, log: PartitionLog, size_bytes: int) -> None:
        """Something was appended: readers may see what all in-sync replicas have (HW-2)."""
        log.raise_high_watermark(log.end_offset)
        if self.readers:
            self.notify(size_bytes)

    def notify(self, size_bytes: int) -> None:
        for reader in list(self.readers):
            reader.more_to_read(size_bytes)

    def remove(self) -> None:
        """The partition is gone; whoever waits for it hears of it."""
        self.is_deleted = True
        self.log = None
        self.notify(0)

    def _lead(self, log: PartitionLog) -> None:
        # EP-1. As the only in-sync replica, what the leader has is what all have.
        if self._is_led and log.epochs.latest < self.state.leader_epoch:
            log.begin_epoch(self.state.leader_epoch)
        log.raise_high_watermark(log.end_offset)
