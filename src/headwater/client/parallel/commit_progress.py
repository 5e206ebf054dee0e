"""Which records are done with, and so how far may be committed. Pure.

Workers finish in any order. A commit says "all before this offset", so it may only go as far as the
oldest record that is not done with. What a reader would get wrong: a partition that was revoked and
comes back, or whose offsets go back, is another one. Work is begun under a token, and what finishes
under an old token counts for nothing.
"""

from collections import deque
from dataclasses import dataclass, field

from headwater.common.ids import TopicPartition


@dataclass(slots=True)
class PartitionProgress:
    """One partition, from when it was assigned until it is revoked."""

    token: int
    order: deque[int] = field(default_factory=deque)
    """Offsets that were begun, in their order, from the oldest that is not done with."""
    done: set[int] = field(default_factory=set)
    """Those of them that are done with nevertheless."""
    next_offset: int | None = None
    """What may be committed; None before anything is done with."""
    committed: int | None = None

    @property
    def first_unseen(self) -> int:
        """Where the next record must be at the least."""
        return self.order[-1] + 1 if self.order else self.next_offset or 0


class CommitProgress:
    """All partitions of a consumer."""

    def __init__(self) -> None:
        self._tokens = 0
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self.unfinished_count = 0

    def begin(self, partition: TopicPartition, offset: int) -> int:
        """A record is handed to the workers. The token goes with it."""
        progress = self._partitions.get(partition)
        if progress is not None and offset < progress.first_unseen:
            # Its log was cut, or its topic made anew: what lies there are other records.
            self.forget(partition)
            progress = None
        if progress is None:
            self._tokens += 1
            progress = self._partitions[partition] = PartitionProgress(self._tokens)
        progress.order.append(offset)
        self.unfinished_count += 1
        return progress.token

    def is_wanted(self, partition: TopicPartition, token: int) -> bool:
        """Whether work that was begun under a token is still ours to do."""
        progress = self._partitions.get(partition)
        return progress is not None and progress.token == token

    def finish(self, partition: TopicPartition, offset: int, token: int) -> None:
        """A record is done with."""
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
        """How far each partition may be committed, where that is news."""
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

    def forget(self, partition: TopicPartition) -> None:
        """The partition is not ours any more."""
        self.unfinished_count -= self.unfinished(partition)
        self._partitions.pop(partition, None)
