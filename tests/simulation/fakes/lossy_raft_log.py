"""The metadata log of one replica in memory, on a disk that loses what was not synced.

A crash leaves the log as it was after any of the operations since the last flush: the last one is
as likely as none of them. Snapshots are durable once frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headwater.raft.replicated_log import (
    LogAppendInfo,
    OffsetAndEpoch,
    RawSnapshotWriter,
    SnapshotSlice,
)
from headwater.records.batch_header import Buffer, read_header
from headwater.records.batch_stamping import assign_offset
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache

UNKNOWN_EPOCH = -1
"""Start epoch of a log that begins within a segment that the latest snapshot covers."""


class Batch(NamedTuple):
    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LogImage:
    """The log at one moment."""

    start_offset: int = 0
    start_epoch: int = 0
    batches: tuple[Batch, ...] = ()

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else self.start_epoch

    def contains(self, end: OffsetAndEpoch) -> bool:
        """Whether a batch of this epoch ends at this offset, or a snapshot covers it."""
        if end.offset <= self.start_offset:
            return True
        return any(
            each.next_offset == end.offset and each.epoch == end.epoch for each in self.batches
        )


@dataclass(slots=True)
class LossyRaftLog:
    """`headwater.raft.replicated_log.ReplicatedLog` in memory."""

    image: LogImage = field(default_factory=LogImage)
    durable: LogImage = field(default_factory=LogImage)
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=dict)
    on_truncate: Callable[[int], None] = lambda _: None
    slice_bytes: int = 1 << 20
    _unsynced: list[LogImage] = field(default_factory=list)

    def _become(self, image: LogImage) -> None:
        self.image = image
        self._unsynced.append(image)

    def flush(self) -> None:
        self.durable = self.image
        self._unsynced.clear()

    def crash(self, choose: Callable[[int], int]) -> None:
        """Lose the operations after a chosen one."""
        images = [self.durable, *self._unsynced]
        self.image = images[choose(len(images))]
        self.flush()
        self.truncate_to_latest_snapshot()
        self.flush()

    def store_snapshot(self, snapshot_id: OffsetAndEpoch, content: bytes) -> None:
        """Write a whole snapshot, as the controller does."""
        self.snapshots[snapshot_id] = content

    # The port

    @property
    def start_offset(self) -> int:
        return self.image.start_offset

    @property
    def end_offset(self) -> int:
        return self.image.end_offset

    @property
    def last_fetched_epoch(self) -> int:
        return self.image.last_epoch

    def append_as_leader(self, batches: bytearray, epoch: int) -> LogAppendInfo:
        position = 0
        offset = self.end_offset
        while position < len(batches):
            assign_offset(batches, position, offset, epoch)
            header = read_header(batches, position)
            offset = header.next_offset
            position += header.size_bytes
        return self.append_as_follower(batches)

    def append_as_follower(self, batches: Buffer) -> LogAppendInfo:
        position = 0
        first = self.end_offset
        while position < len(batches):
            header = read_header(batches, position)
            end = position + header.size_bytes
            assert header.base_offset == self.end_offset, (header, self.end_offset)
            assert header.leader_epoch >= self.image.last_epoch, header
            batch = Batch(
                header.base_offset,
                header.next_offset,
                header.leader_epoch,
                bytes(memoryview(batches)[position:end]),
            )
            self._become(replace(self.image, batches=(*self.image.batches, batch)))
            position = end
        return LogAppendInfo(first, self.end_offset - 1)

    def initialize_leader_epoch(self, epoch: int) -> None:
        assert epoch >= self.last_fetched_epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        if epoch == self.last_fetched_epoch and self.image.batches:
            return OffsetAndEpoch(self.end_offset, epoch)
        cache = LeaderEpochFileCache()
        if self.start_offset > 0:
            cache.assign(self.image.start_epoch, self.start_offset)
        for each in self.image.batches:
            cache.assign(each.epoch, each.base_offset)
        found = cache.end_offset_for(epoch, self.end_offset)
        earliest = self.earliest_snapshot_id
        if found.end_offset < 0:
            return OffsetAndEpoch(self.end_offset, self.last_fetched_epoch)
        if earliest is not None and found == (epoch, earliest.offset):
            return earliest
        return OffsetAndEpoch(found.end_offset, found.epoch)

    def truncate_to(self, offset: int) -> None:
        self.on_truncate(offset)
        kept = tuple(each for each in self.image.batches if each.next_offset <= offset)
        self._become(replace(self.image, batches=kept))

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Buffer:
        out = bytearray()
        for each in self.image.batches:
            if each.next_offset > offset and each.base_offset < end_offset:
                if out and len(out) + len(each.data) > min(max_bytes, self.slice_bytes):
                    break
                out += each.data
        return bytes(out)

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=None)

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return min(self.snapshots, default=None)

    def read_snapshot(
        self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotSlice | None:
        content = self.snapshots.get(snapshot_id)
        if content is None:
            return None
        end = position + min(max_bytes, self.slice_bytes)
        return SnapshotSlice(len(content), content[position:end])

    def create_new_snapshot(self, snapshot_id: OffsetAndEpoch) -> RawSnapshotWriter | None:
        return None if snapshot_id in self.snapshots else SnapshotInMemory(self, snapshot_id)

    def truncate_to_latest_snapshot(self) -> bool:
        latest = self.latest_snapshot_id
        if latest is None or not is_beyond(latest, self.image):
            return False
        self._become(LogImage(latest.offset, latest.epoch))
        for each in list(self.snapshots):
            if each < latest:
                del self.snapshots[each]
        return True

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch) -> bool:
        if snapshot_id not in self.snapshots or snapshot_id.offset <= self.start_offset:
            return False
        kept = tuple(each for each in self.image.batches if each.next_offset > snapshot_id.offset)
        self._become(LogImage(snapshot_id.offset, snapshot_id.epoch, kept))
        for each in list(self.snapshots):
            if each < snapshot_id:
                del self.snapshots[each]
        return True


def is_beyond(snapshot: OffsetAndEpoch, image: LogImage) -> bool:
    if snapshot.offset == 0:
        return False
    return snapshot.epoch > image.last_epoch or (
        snapshot.epoch == image.last_epoch and snapshot.offset > image.end_offset
    )


@dataclass(slots=True)
class SnapshotInMemory:
    """A snapshot on its way from the leader; lost with the process unless frozen."""

    log: LossyRaftLog
    snapshot_id: OffsetAndEpoch
    content: bytearray = field(default_factory=bytearray)

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    def append(self, data: Buffer) -> None:
        self.content += data

    def freeze(self) -> None:
        self.log.snapshots[self.snapshot_id] = bytes(self.content)
