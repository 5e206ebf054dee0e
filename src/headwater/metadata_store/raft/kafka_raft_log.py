"""The metadata log `__cluster_metadata-0` on a `UnifiedLog` (Kafka: KafkaRaftLog).

    00000000000000000000.log, .index, .timeindex    records
    leader-epoch-checkpoint                         start offset of each epoch
    00000000000000000123-0000000004.checkpoint      snapshot up to offset 123
    quorum-state                                    epoch, leader and vote
    partition.metadata                              the topic id

Every start checks all records, as Kafka's does: snapshots keep the log short, and no recovery point
has to be trusted. Appends and truncations reach the page cache only; `flush` makes them durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from headwater.common.exceptions import CorruptFile, StorageError
from headwater.common.ids import TopicPartition
from headwater.common.ports import Random
from headwater.common.settings.topic_settings import TopicSettings
from headwater.metadata_store.raft.snapshot_files import FileRawSnapshotWriter, SnapshotFiles
from headwater.raft.quorum_config import PARTITION, TOPIC_NAME
from headwater.raft.raft_messages import METADATA_TOPIC_ID
from headwater.raft.replicated_log import LogAppendInfo, OffsetAndEpoch, SnapshotSlice
from headwater.records.batch_header import LENGTH_END, Buffer, read_header
from headwater.storage.io.disk import Disk, make_directory_durably, write_atomically
from headwater.storage.io.executor import Executor
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log import partition_metadata_file
from headwater.storage.log.flush import Waiter
from headwater.storage.log.log_loader import CheckpointedState, LoadReport, LogLocation, load_log
from headwater.storage.log.unified_log import LogEvents, ReadBound, UnifiedLog
from headwater.storage.log_manager.pending_deletes import PendingDeletes
from headwater.storage.producer_state.producer_state_manager import AppendOrigin

METADATA_PARTITION: Final = TopicPartition(TOPIC_NAME, PARTITION)
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
DIRECTORY_NAME: Final = f"{TOPIC_NAME}-{PARTITION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """Kafka's `metadata.log.segment.*` settings."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000

    def topic_settings(self) -> TopicSettings:
        """Snapshots decide what is deleted, so retention by time and size is off."""
        return TopicSettings(
            cleanup_policy=("delete",),
            retention_ms=-1,
            retention_bytes=-1,
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            max_message_bytes=MAX_BATCH_BYTES,
            file_delete_delay_ms=0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftLogTools:
    """Dependencies of a metadata log."""

    disk: Disk
    files: OpenFiles
    executor: Executor
    random: Random
    now_ms: Callable[[], int]


class KafkaRaftLog:
    """`headwater.raft.replicated_log.ReplicatedLog` in files. One caller at a time."""

    def __init__(
        self, directory: PurePath, *, config: MetadataLogConfig, tools: RaftLogTools
    ) -> None:
        """Open or create the log.

        Raises CorruptFile if records are missing that no snapshot covers.
        """
        self.directory = directory
        self.failure: StorageError | None = None
        self._tools = tools
        self._removals = PendingDeletes()
        make_directory_durably(tools.disk, directory)
        identity = directory / partition_metadata_file.FILE_NAME
        if tools.disk.status(identity) is None:
            content = partition_metadata_file.encode(METADATA_TOPIC_ID)
            write_atomically(tools.disk, identity, content)
        place = LogLocation(
            disk=tools.disk,
            files=tools.files,
            removals=self._removals,
            folder=directory,
            partition=METADATA_PARTITION,
            rng=tools.random,
        )
        loaded = load_log(
            place,
            config.topic_settings(),
            CheckpointedState(was_clean=False),
            now_ms=tools.now_ms(),
        )
        self.report: LoadReport = loaded.report
        self._log = UnifiedLog(
            loaded.parts,
            executor=tools.executor,
            events=LogEvents(
                failed=self._failed,
                recovery_point_lowered=_nothing,
                segments_flushed=_nothing,
                log_start_lowered=_nothing,
                first_dirty_lowered=_nothing,
            ),
        )
        self._snapshots = SnapshotFiles(tools.disk, directory)
        # A crash may come between the end of a download and the truncation that follows it.
        self.truncate_to_latest_snapshot()
        self._check_start()

    def _check_start(self) -> None:
        start_offset = self._log.log_start_offset
        if start_offset == 0:
            return
        for each in self._snapshots.ids:
            if each.offset >= start_offset:
                # A crash may have kept snapshots whose segments were deleted.
                self._snapshots.delete_before(each)
                return
        raise CorruptFile(
            f"the records below offset {start_offset} of {self.directory} are gone, and no "
            "snapshot covers them; restore the directory or format it"
        )

    def _failed(self, error: StorageError) -> None:
        self.failure = self.failure or error
        self._log.fence(error)

    # Durability

    def flush(self, then: Waiter) -> None:
        """Sync everything up to the log end, then call back."""
        self._log.flush(then)

    def close(self) -> None:
        """Flush and close the files. No flush may be running."""
        self._log.close()

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return self._log.size_bytes

    # The port

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def last_fetched_epoch(self) -> int:
        if self._log.epochs.latest >= 0:
            return self._log.epochs.latest
        latest = self.latest_snapshot_id
        return 0 if latest is None else latest.epoch

    def append_as_leader(self, batches: bytearray, epoch: int) -> LogAppendInfo:
        first_offset = self._log.end_offset
        view = memoryview(batches)
        position = 0
        while position < len(batches):
            size_bytes = read_header(batches, position).size_bytes
            self._log.append_as_leader(
                view[position : position + size_bytes],
                leader_epoch=epoch,
                now_ms=self._tools.now_ms(),
                origin=AppendOrigin.COORDINATOR,
            )
            position += size_bytes
        return LogAppendInfo(first_offset, self._log.end_offset - 1)

    def append_as_follower(self, batches: Buffer) -> LogAppendInfo:
        first_offset = self._log.end_offset
        epoch = _last_epoch(batches)
        self._log.append_as_follower(batches, leader_epoch=epoch, now_ms=self._tools.now_ms())
        return LogAppendInfo(first_offset, self._log.end_offset - 1)

    def initialize_leader_epoch(self, epoch: int) -> None:
        self._log.begin_epoch(epoch)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        found = self._log.epochs.end_offset_for(epoch, self._log.end_offset)
        if found.end_offset < 0:
            return OffsetAndEpoch(self._log.end_offset, self.last_fetched_epoch)
        earliest = self.earliest_snapshot_id
        if earliest is not None and found == (epoch, earliest.offset):
            # The epoch is older than all of the log: the snapshot says what came before.
            return earliest
        return OffsetAndEpoch(found.end_offset, found.epoch)

    def truncate_to(self, offset: int) -> None:
        self._log.truncate_to(offset, now_ms=self._tools.now_ms())

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Buffer:
        """Whole batches of one segment; the next call reads the next segment."""
        found = self._log.read(offset, max_bytes=max_bytes, bound=ReadBound.LOG_END).range
        if found is None:
            return b""
        return _whole_batches(found.read(), end_offset)

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return self._snapshots.ids[-1] if self._snapshots.ids else None

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return self._snapshots.ids[0] if self._snapshots.ids else None

    def read_snapshot(
        self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotSlice | None:
        return self._snapshots.read(snapshot_id, position, max_bytes)

    def create_new_snapshot(self, snapshot_id: OffsetAndEpoch) -> FileRawSnapshotWriter | None:
        return self._snapshots.create(snapshot_id)

    def truncate_to_latest_snapshot(self) -> bool:
        latest = self.latest_snapshot_id
        if latest is None or latest.offset == 0:
            return False
        is_beyond = latest.epoch > self.last_record_epoch or (
            latest.epoch == self.last_record_epoch and latest.offset > self._log.end_offset
        )
        if not is_beyond:
            return False
        self._log.start_over(latest.offset, now_ms=self._tools.now_ms())
        self._snapshots.delete_before(latest)
        return True

    @property
    def last_record_epoch(self) -> int:
        """Epoch of the last record; of the snapshot at the log start if there is none."""
        if self._log.epochs.latest >= 0:
            return self._log.epochs.latest
        start_offset = self._log.log_start_offset
        return max(
            (each.epoch for each in self._snapshots.ids if each.offset == start_offset), default=0
        )

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch) -> bool:
        if snapshot_id not in self._snapshots.ids or snapshot_id.offset <= self.start_offset:
            return False
        self._log.raise_log_start(snapshot_id.offset)
        # Segments go before the snapshots that cover them too: a start needs one of the two.
        self._log.apply_retention(self._tools.now_ms())
        for path in self._removals.take_all():
            self._tools.disk.remove(path)
        self._snapshots.delete_before(snapshot_id)
        return True


def _nothing() -> None:
    pass


def _last_epoch(batches: Buffer) -> int:
    position = 0
    epoch = 0
    while position < len(batches):
        header = read_header(batches, position)
        epoch = max(epoch, header.leader_epoch)
        position += header.size_bytes
    return epoch


def _whole_batches(content: Buffer, end_offset: int) -> Buffer:
    """The complete batches below an end offset at the start of some bytes."""
    position = 0
    while len(content) - position >= LENGTH_END:
        length = int.from_bytes(content[position + 8 : position + LENGTH_END], "big")
        if position + LENGTH_END + length > len(content):
            break
        if int.from_bytes(content[position : position + 8], "big") >= end_offset:
            break
        position += LENGTH_END + length
    return memoryview(content)[:position]
