"""Committed offsets of groups, and pending offsets of open transactions.

Pure: only `replay` and `end_transaction` change state, live and while loading.

Note: if one of two commits is transactional, the later *record* in the log wins, not the one that
took effect last (TX-12). Compaction keeps only the later record, so no other rule would survive it.
Kafka does the same (4.1).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.common.ids import NO_TIMESTAMP, ProducerId, TopicPartition
from headwater.coordinator.group.group import Group
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A commit and the log offset of its record."""

    value: OffsetCommitValue
    record_offset: int


@dataclass(frozen=True, slots=True)
class Expiry:
    """Tombstones of a group's expired offsets, and whether these are all its offsets."""

    records: tuple[OffsetCommitRecord, ...]
    is_all: bool


_Offsets = dict[TopicPartition, CommittedOffset]


class CommittedOffsets:
    """All offsets of one partition of `__consumer_offsets`."""

    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, _Offsets] = {}
        self._pending: dict[ProducerId, dict[str, _Offsets]] = {}
        # Producers with an open transaction in a group, in order of arrival.
        self._open: dict[str, dict[ProducerId, None]] = {}

    def replay(
        self, record: OffsetCommitRecord, *, offset: int, producer_id: ProducerId | None
    ) -> None:
        """Apply a record; `producer_id` if it is part of a transaction."""
        key = record.key
        partition = TopicPartition(key.topic, key.partition)
        if record.value is None:
            self._forget(key.group, partition)
            return
        committed = CommittedOffset(record.value, offset)
        if producer_id is None:
            self._committed.setdefault(key.group, {})[partition] = committed
            return
        pending = self._pending.setdefault(producer_id, {})
        pending.setdefault(key.group, {})[partition] = committed
        self._open.setdefault(key.group, {})[producer_id] = None

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Apply a marker: commit or drop the pending offsets (TX-12)."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            opened = self._open[group_id]
            del opened[producer_id]
            if not opened:
                del self._open[group_id]
            if is_commit:
                for partition, committed in offsets.items():
                    self._commit(group_id, partition, committed)

    def groups(self) -> list[str]:
        """Return the groups that have offsets, committed or pending."""
        return list(dict.fromkeys([*self._committed, *self._open]))

    @property
    def count(self) -> int:
        """Number of committed offsets of all groups, without pending ones."""
        return sum(map(len, self._committed.values()))

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._open

    def get(self, group_id: str, partition: TopicPartition) -> OffsetCommitValue | None:
        committed = self._committed.get(group_id, {}).get(partition)
        return committed.value if committed is not None else None

    def of_group(self, group_id: str) -> Iterator[tuple[TopicPartition, OffsetCommitValue]]:
        """Yield the group's offsets without pending ones, sorted by topic."""
        offsets = self._committed.get(group_id, {})
        for partition in sorted(offsets):
            yield partition, offsets[partition].value

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        """Return whether an open transaction has committed this partition (TX-11)."""
        return any(
            partition in self._pending[producer_id].get(group_id, {})
            for producer_id in self._open.get(group_id, {})
        )

    def tombstones(self, group_id: str) -> tuple[OffsetCommitRecord, ...]:
        """Return tombstones for all offsets of a group, including pending ones."""
        partitions = dict.fromkeys(self._committed.get(group_id, {}))
        for producer_id in self._open.get(group_id, {}):
            partitions.update(dict.fromkeys(self._pending[producer_id][group_id]))
        return tuple(tombstone(group_id, partition) for partition in partitions)

    def topic_tombstones(self, topics: frozenset[str]) -> tuple[OffsetCommitRecord, ...]:
        """Return tombstones for all offsets of deleted topics (OE-2)."""
        return tuple(
            record
            for group_id in self.groups()
            for record in self.tombstones(group_id)
            if record.key.topic in topics
        )

    def expired(self, group: Group, *, now_ms: int, retention_ms: int) -> Expiry:
        """Return tombstones of expired offsets, not of pending ones (OE-1, OE-2, TX-12)."""
        group_id = group.group_id
        offsets = self._committed.get(group_id, {})
        records = tuple(
            tombstone(group_id, partition)
            for partition, committed in offsets.items()
            if not group.is_subscribed_to(partition.topic)
            and _is_expired(group, committed.value, now_ms, retention_ms)
            and not self.is_pending(group_id, partition)
        )
        is_all = len(records) == len(offsets) and group_id not in self._open
        return Expiry(records, is_all)

    def _commit(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        offsets = self._committed.setdefault(group_id, {})
        other = offsets.get(partition)
        if other is None or other.record_offset < committed.record_offset:
            offsets[partition] = committed

    def _forget(self, group_id: str, partition: TopicPartition) -> None:
        offsets = self._committed.get(group_id, {})
        # Compaction may have removed the commit, so it may be missing.
        offsets.pop(partition, None)
        if not offsets:
            self._committed.pop(group_id, None)
        # The transactions stay open until their markers.
        for producer_id in self._open.get(group_id, {}):
            self._pending[producer_id][group_id].pop(partition, None)


def tombstone(group_id: str, partition: TopicPartition) -> OffsetCommitRecord:
    key = OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition)
    return OffsetCommitRecord(key, None)


def _is_expired(group: Group, value: OffsetCommitValue, now_ms: int, retention_ms: int) -> bool:
    begin_ms = group.retention_begins_ms(value.commit_timestamp)
    if begin_ms is None:
        return False
    if value.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= value.expire_timestamp
    return now_ms - begin_ms >= retention_ms
