"""Track processed records and the offsets that may be committed. Pure.

Workers finish in any order. A committed offset covers all records before it, so it may only
advance to the oldest unfinished record.

Note: a partition that was revoked and assigned again, or whose offsets went back, starts over. Work
carries a token, and work that finishes with an old token is ignored.
"""

from collections import deque
from dataclasses import dataclass, field

from headwater.common.ids import TopicPartition


@dataclass(slots=True)
class PartitionProgress:
    """One partition, from its assignment to its revocation."""

    token: int
    order: deque[int] = field(default_factory=deque)
    """Offsets of started records in order, from the oldest unfinished one."""
    done: set[int] = field(default_factory=set)
    """Those of them that are finished."""
    next_offset: int | None = None
    """The offset that may be committed; None before the first record is finished."""
    committed: int | None = None

    @property
    def first_unseen(self) -> int:
        """The lowest possible offset of the next record."""
        return self.order[-1] + 1 if self.order else self.next_offset or 0


class CommitProgress:
    """The progress of all partitions of a consumer."""

    def __init__(self) -> None:
        self._tokens = 0
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self.unfinished_count = 0

    def begin(self, partition: TopicPartition, offset: int) -> int:
        """Start a record; returns the token for `finish`."""
        progress = self._partitions.get(partition)
        if progress is not None and offset < progress.first_unseen:
            # The log was truncated or the topic recreated: these are other records.
            self.remove(partition)
            progress = None
        if progress is None:
            self._tokens += 1
            progress = self._partitions[partition] = PartitionProgress(self._tokens)
        progress.order.append(offset)
        self.unfinished_count += 1
        return progress.token

    def is_wanted(self, partition: TopicPartition, token: int) -> bool:
        """Whether work with this token is still valid."""
        progress = self._partitions.get(partition)
        return progress is not None and progress.token == token

    def finish(self, partition: TopicPartition, offset: int, token: int) -> None:
        """A record has been processed."""
        if not self.is_wanted(partition, token):
            return
        progress = self._partitions[partition]
        progress.done.add(offset)
        self.unfinished_count -= 1
        while progress.order and progress.order[0] in progress.done:
            oldest = progress.order.popleft()
            progress.done.discard(oldest)
            progress.next_offset = oldest + 1

    def to_commit(self) -> dict[TopicPartition, int]:
        """The offsets to commit, where they have changed."""
        return {
            partition: progress.next_offset
            for partition, progress in self._partitions.items()
            if progress.next_offset is not None and progress.next_offset != progress.committed
        }

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if partition in self._partitions:
                self._partitions[partition].committed = offset

    def unfinished(self, partition: TopicPartition) -> int:
        progress = self._partitions.get(partition)
        return 0 if progress is None else len(progress.order) - len(progress.done)

    def remove(self, partition: TopicPartition) -> None:
        """The partition was revoked or lost."""
        self.unfinished_count -= self.unfinished(partition)
        self._partitions.pop(partition, None)
