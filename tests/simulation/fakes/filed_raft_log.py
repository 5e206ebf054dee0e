"""The shipped metadata log on a lossy disk, beside the model that the checks read.

Each operation happens in both and must have the same result. After a crash the model takes the
state that the files have, which must be one that the model allows: the log after some of the
operations since the last flush.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath

from headwater.common.exceptions import StorageError
from headwater.metadata_store.raft.kafka_raft_log import (
    KafkaRaftLog,
    MetadataLogConfig,
    RaftLogTools,
)
from headwater.metadata_store.raft.quorum_state_store import FileQuorumStateStore
from headwater.raft.election_state import ElectionState
from headwater.raft.replicated_log import (
    LogAppendInfo,
    OffsetAndEpoch,
    RawSnapshotWriter,
    SnapshotSlice,
)
from headwater.records.batch_header import Buffer, read_header
from headwater.storage.io.disk import make_directory_durably
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.open_files import OpenFiles
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.lossy_raft_log import (
    UNKNOWN_EPOCH,
    Batch,
    LogImage,
    LossyRaftLog,
    is_beyond,
)
from tests.simulation.fakes.seeded_random import SeededRandom

DIRECTORY = PurePath("/data/__cluster_metadata-0")


@dataclass(slots=True)
class FiledRaftLog(LossyRaftLog):
    """`KafkaRaftLog` and `LossyRaftLog` side by side."""

    rand: random.Random = field(default_factory=lambda: random.Random(0))
    segment_bytes: int = 1_000
    disk: LossyDisk = field(init=False)
    files: KafkaRaftLog = field(init=False)

    def __post_init__(self) -> None:
        self.disk = LossyDisk(random.Random(self.rand.random()))
        make_directory_durably(self.disk, DIRECTORY)
        self.open()

    def open(self) -> None:
        self.files = KafkaRaftLog(
            DIRECTORY,
            config=MetadataLogConfig(segment_bytes=self.segment_bytes),
            tools=RaftLogTools(
                disk=self.disk,
                files=OpenFiles(self.disk, 64),
                executor=InlineExecutor(),
                random=SeededRandom(self.rand),
                now_ms=lambda: 0,
            ),
        )

    def write_election_state(
        self, election: ElectionState, *, kraft_version: int, voter_ids: tuple[int, ...]
    ) -> None:
        FileQuorumStateStore(self.disk, DIRECTORY).write_election_state(
            election, kraft_version=kraft_version, voter_ids=voter_ids
        )

    def read_election_state(self) -> ElectionState | None:
        return FileQuorumStateStore(self.disk, DIRECTORY).read_election_state()

    # Durability

    def flush(self) -> None:
        outcomes: list[StorageError | None] = []
        self.files.flush(outcomes.append)
        assert outcomes == [None], outcomes
        LossyRaftLog.flush(self)

    def crash(self, choose: Callable[[int], int]) -> None:  # noqa: ARG002, the disk chooses
        """Cut the power, or kill the process only; then open the files and compare."""
        images = [self.durable, *self._unsynced]
        is_power_cut = self.rand.random() < 0.5
        if is_power_cut:
            self.disk.power_cut()
        else:
            self.disk.process_crash()
            images = images[-1:]
        self.open()
        found = self._image_in_files()
        assert any(_is_same(found, self._opened(each)) for each in images), (
            f"after a crash the files have {_summary(found)}, the log had "
            f"{[_summary(each) for each in images]}"
        )
        # What a killed process leaves in the page cache may still be lost to a power cut.
        self._become(found)
        if is_power_cut:
            LossyRaftLog.flush(self)
        for each in list(self.snapshots):
            if each < (self.files.earliest_snapshot_id or each):
                del self.snapshots[each]
        assert self.files.latest_snapshot_id == self.latest_snapshot_id
        self._compare()

    def _opened(self, image: LogImage) -> LogImage:
        """The image after a start, which truncates a log that ends before the latest snapshot."""
        latest = self.latest_snapshot_id
        if latest is None or not is_beyond(latest, image):
            return image
        return LogImage(latest.offset, latest.epoch)

    def _image_in_files(self) -> LogImage:
        files = self.files
        batches: list[Batch] = []
        offset = files.start_offset
        while offset < files.end_offset:
            content = files.read(offset, files.end_offset, self.slice_bytes)
            for each in _batches(content):
                if each.next_offset > offset:
                    batches.append(each)
                    offset = each.next_offset
        start_epoch = max(
            (each.epoch for each in self.snapshots if each.offset == files.start_offset),
            default=UNKNOWN_EPOCH if files.start_offset else 0,
        )
        return LogImage(files.start_offset, start_epoch, tuple(batches))

    def _compare(self) -> None:
        files, image = self.files, self.image
        ours = (files.start_offset, files.end_offset)
        assert ours == (image.start_offset, image.end_offset), (ours, _summary(image))
        assert files.last_record_epoch == image.last_epoch

    # The port

    @property
    def last_fetched_epoch(self) -> int:
        ours = self.files.last_fetched_epoch
        assert ours == self.image.last_epoch, (ours, self.image.last_epoch)
        return ours

    def append_as_leader(self, batches: bytearray, epoch: int) -> LogAppendInfo:
        twin = bytearray(batches)
        appended = self.files.append_as_leader(twin, epoch)
        modelled = LossyRaftLog.append_as_leader(self, batches, epoch)
        assert appended == modelled
        assert twin == batches
        return appended

    def append_as_follower(self, batches: Buffer) -> LogAppendInfo:
        modelled = LossyRaftLog.append_as_follower(self, batches)
        if self.files.end_offset < self.end_offset:
            # Not the second half of a leader's append.
            appended = self.files.append_as_follower(batches)
            assert appended == modelled
        self._compare()
        return modelled

    def initialize_leader_epoch(self, epoch: int) -> None:
        self.files.initialize_leader_epoch(epoch)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        ours = self.files.end_offset_for_epoch(epoch)
        modelled = LossyRaftLog.end_offset_for_epoch(self, epoch)
        assert ours == modelled, (epoch, ours, modelled, _summary(self.image))
        return ours

    def truncate_to(self, offset: int) -> None:
        LossyRaftLog.truncate_to(self, offset)
        self.files.truncate_to(offset)
        self._compare()

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Buffer:
        ours = self.files.read(offset, end_offset, min(max_bytes, self.slice_bytes))
        modelled = LossyRaftLog.read(self, offset, end_offset, max_bytes)
        # A read of files ends with their segment.
        assert bytes(modelled).startswith(bytes(ours))
        assert bool(ours) == bool(modelled)
        return bytes(ours)

    def read_snapshot(
        self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotSlice | None:
        length = min(max_bytes, self.slice_bytes)
        ours = self.files.read_snapshot(snapshot_id, position, length)
        assert ours == LossyRaftLog.read_snapshot(self, snapshot_id, position, max_bytes)
        return ours

    def store_snapshot(self, snapshot_id: OffsetAndEpoch, content: bytes) -> None:
        writer = self.files.create_new_snapshot(snapshot_id)
        assert writer is not None
        writer.append(content)
        writer.freeze()
        LossyRaftLog.store_snapshot(self, snapshot_id, content)

    def create_new_snapshot(self, snapshot_id: OffsetAndEpoch) -> RawSnapshotWriter | None:
        files = self.files.create_new_snapshot(snapshot_id)
        model = LossyRaftLog.create_new_snapshot(self, snapshot_id)
        if files is None or model is None:
            assert files is model
            return None
        return _SnapshotInBoth(files, model)

    def truncate_to_latest_snapshot(self) -> bool:
        modelled = LossyRaftLog.truncate_to_latest_snapshot(self)
        assert self.files.truncate_to_latest_snapshot() == modelled
        self._compare()
        return modelled

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch) -> bool:
        modelled = LossyRaftLog.delete_before_snapshot(self, snapshot_id)
        assert self.files.delete_before_snapshot(snapshot_id) == modelled
        self._compare()
        return modelled


@dataclass(slots=True)
class _SnapshotInBoth:
    files: RawSnapshotWriter
    model: RawSnapshotWriter

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        return self.files.snapshot_id

    @property
    def size_bytes(self) -> int:
        return self.files.size_bytes

    def append(self, data: Buffer) -> None:
        self.files.append(data)
        self.model.append(data)

    def freeze(self) -> None:
        self.files.freeze()
        self.model.freeze()


def _batches(content: Buffer) -> list[Batch]:
    found: list[Batch] = []
    position = 0
    while position < len(content):
        header = read_header(content, position)
        data = bytes(memoryview(content)[position : position + header.size_bytes])
        found.append(Batch(header.base_offset, header.next_offset, header.leader_epoch, data))
        position += header.size_bytes
    return found


def _is_same(found: LogImage, image: LogImage) -> bool:
    """Whether two logs agree where both have records; a start may forget deletions at the front."""
    start_offset = max(found.start_offset, image.start_offset)

    def kept(log: LogImage) -> list[Batch]:
        return [each for each in log.batches if each.next_offset > start_offset]

    return found.end_offset == image.end_offset and kept(found) == kept(image)


def _summary(image: LogImage) -> str:
    return f"{image.start_offset} to {image.end_offset} in epoch {image.last_epoch}"
