"""One partition's log on a fake disk: append, read, crash and reopen."""

import random
from collections.abc import Sequence
from pathlib import PurePath

from headwater.common.exceptions import StorageError
from headwater.common.ids import TopicPartition
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec, read_header
from headwater.records.control_batches import ControlType, build_marker
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from headwater.storage.io.disk import Disk
from headwater.storage.io.executor import Executor, InlineExecutor
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log.append import LogAppendInfo
from headwater.storage.log.batch_walk import walk_batches
from headwater.storage.log.log_loader import CheckpointedState, LoadReport, LogLocation, load_log
from headwater.storage.log.unified_log import LogEvents, ReadBound, UnifiedLog
from headwater.storage.log_manager.pending_deletes import PendingDeletes
from headwater.storage.producer_state.producer_state_manager import AppendOrigin
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.seeded_random import SeededRandom

PARTITION = TopicPartition("orders", 0)
FOLDER = PurePath("/data/orders-0")
START_MS = 1_700_000_000_000


def records(*values: bytes | None, timestamp: int = START_MS, key: bytes = b"k") -> list[Record]:
    return [Record(key=key, value=value, timestamp=timestamp) for value in values]


class LogLab:
    """Keeps what outlives a process: the disk, and the checkpoints as a directory would."""

    def __init__(
        self,
        settings: TopicSettings | None = None,
        *,
        disk: Disk | None = None,
        folder: PurePath = FOLDER,
        executor: Executor | None = None,
        max_open_files: int = 64,
        seed: int = 1,
    ) -> None:
        self.rng = random.Random(seed)
        self.disk: Disk = LossyDisk(self.rng) if disk is None else disk
        self.folder = folder
        self.settings = settings or TopicSettings()
        self.executor = executor or InlineExecutor()
        self.max_open_files = max_open_files
        self.now_ms = START_MS
        self.recovery_point = 0
        self.log_start_offset = 0
        self.failures: list[StorageError] = []
        self.report = LoadReport()
        self.removals = PendingDeletes()
        self.log = self.open(was_clean=True)

    def open(self, *, was_clean: bool) -> UnifiedLog:
        """What a start of the process does."""
        self.removals = PendingDeletes()
        self.files = OpenFiles(self.disk, self.max_open_files)
        place = LogLocation(
            disk=self.disk,
            files=self.files,
            removals=self.removals,
            folder=self.folder,
            partition=PARTITION,
            rng=SeededRandom(self.rng),
        )
        remembered = CheckpointedState(
            was_clean=was_clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
        )
        loaded = load_log(place, self.settings, remembered, now_ms=self.now_ms)
        self.report = loaded.report
        events = LogEvents(
            failed=self.failures.append,
            segments_flushed=lambda: None,
            recovery_point_lowered=self.checkpoint,
            log_start_lowered=self.checkpoint,
            first_dirty_lowered=self.checkpoint,
        )
        self.log = UnifiedLog(loaded.parts, executor=self.executor, events=events)
        self.log.raise_high_watermark(self.log.end_offset)
        return self.log

    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point
        self.log_start_offset = self.log.log_start_offset

    def crash(self) -> UnifiedLog:
        """Die as by kill -9, which keeps the page cache, and start again."""
        if isinstance(self.disk, LossyDisk):
            self.disk.process_crash()
        return self.open(was_clean=False)

    def reopen(self) -> UnifiedLog:
        """Stop cleanly and start again."""
        self.log.close()
        self.checkpoint()
        return self.open(was_clean=True)

    def append(
        self,
        content: Sequence[Record] | int = 1,
        *,
        leader_epoch: int = 0,
        codec: Codec = Codec.NONE,
        producer: tuple[int, int, int] | None = None,
        is_transactional: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> LogAppendInfo:
        """Append records, or that many small ones, as a single leader."""
        if isinstance(content, int):
            content = records(*(b"value-%d" % n for n in range(content)), timestamp=self.now_ms)
        producer_id, epoch, sequence = producer or (-1, -1, -1)
        batch = build_batch(
            content,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        appended = self.log.append_as_leader(
            bytearray(batch), leader_epoch=leader_epoch, now_ms=self.now_ms, origin=origin
        )
        self.log.raise_high_watermark(self.log.end_offset)
        return appended

    def end_transaction(
        self,
        producer_id: int,
        *,
        commit: bool,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        leader_epoch: int = 0,
    ) -> LogAppendInfo:
        marker = build_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self.now_ms,
        )
        appended = self.log.append_as_leader(
            bytearray(marker),
            leader_epoch=leader_epoch,
            now_ms=self.now_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        self.log.raise_high_watermark(self.log.end_offset)
        return appended

    def read_bytes(self, offset: int = 0, *, max_bytes: int = 1 << 30) -> bytes:
        """Everything from an offset to the log end."""
        content = bytearray()
        while True:
            read = self.log.read(offset, max_bytes=max_bytes, bound=ReadBound.LOG_END)
            if read.range is None:
                return bytes(content)
            end = read.range.position + read.range.length
            for batch in walk_batches(read.range.file.file(), read.range.position, end):
                content += batch.content
                offset = batch.header.next_offset

    def contents(self, offset: int | None = None) -> list[tuple[int, bytes | None]]:
        """Offset and value of every data record, as a consumer gets them."""
        start = self.log.log_start_offset if offset is None else offset
        content, position, found = memoryview(self.read_bytes(start)), 0, []
        while position < len(content):
            size = int.from_bytes(content[position + 8 : position + 12], "big") + 12
            batch = content[position : position + size]
            found += _data_records(batch)
            position += size
        return [each for each in found if each[0] >= start]


def _data_records(batch: memoryview) -> list[tuple[int, bytes | None]]:
    header = read_header(batch)
    if header.is_control:
        return []
    return [(each.offset or 0, each.value) for each in read_records(batch, header)]
