"""Consumer lag in records and in time, from samples of log end offsets. Pure.

The lag in time is the age of the next record that the group has yet to read: how long ago it was
appended. It grows by the second while a group stands still, whatever the rate of the topic, and is
0 if there is no such record. `offset_history` has its accuracy.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.common.ids import TopicPartition
from headwater.coordinator.group.offset_history import OffsetHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """Lag of one group in one partition.

    `is_lower_bound`: the next record is older than the first sample, so `time_ms` is too small.
    """

    records: int
    time_ms: int
    is_lower_bound: bool = False


class GroupLagMonitor:
    """Log end offsets of the partitions in which groups have committed offsets.

    A history belongs to a partition, however many groups read it.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._histories: dict[TopicPartition, OffsetHistory] = {}

    def __len__(self) -> int:
        return len(self._histories)

    def retain(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget all other partitions: no group has offsets in them any more."""
        former, self._histories = self._histories, {}
        for partition in partitions:
            if partition in former:
                self._histories[partition] = former[partition]

    def sample(self, partition: TopicPartition, end_offset: int, now_ms: int) -> None:
        """Add the log end offset of a partition."""
        history = self._histories.get(partition)
        if history is None:
            history = self._histories[partition] = OffsetHistory(self._interval_ms)
        history.add(now_ms, end_offset)

    def lag(self, partition: TopicPartition, committed: int, now_ms: int) -> PartitionLag | None:
        """Return the lag of a committed offset; None if the partition was never sampled."""
        history = self._histories.get(partition)
        end_offset = None if history is None else history.end_offset
        if history is None or end_offset is None:
            return None
        appended = history.append_time(committed)
        if appended is None:
            return PartitionLag(records=0, time_ms=0)
        return PartitionLag(
            records=end_offset - committed,
            time_ms=max(now_ms - appended.time_ms, 0),
            is_lower_bound=appended.is_lower_bound,
        )
