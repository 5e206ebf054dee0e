"""The four checkpoints of a log directory, in memory and on disk.

They hold recovery points, log start offsets, high watermarks and cleaner offsets. Entries of logs
that have not been opened since the start are kept when a file is written.

Note: a deleted partition must be removed from the files before its name can be reused. A re-created
topic would inherit a recovery point, and recovery would trust bytes that were never flushed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePath

from headwater.common.exceptions import CorruptFile, StorageError
from headwater.common.ids import TopicPartition
from headwater.storage.io.disk import Disk
from headwater.storage.io.executor import Executor
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.log_manager import checkpoints
from headwater.storage.log_manager.checkpoint_file import CheckpointFile


class DirectoryCheckpoints:
    """Checkpoints of a directory; `update_...` only changes memory."""

    def __init__(
        self,
        disk: Disk,
        path: PurePath,
        *,
        executor: Executor,
        failed: Callable[[StorageError], None],
    ) -> None:
        def checkpoint(name: str) -> CheckpointFile:
            return CheckpointFile(disk, path / name, executor=executor, failed=failed)

        self.recovery_points = checkpoint(checkpoints.RECOVERY_POINTS)
        self.log_starts = checkpoint(checkpoints.LOG_START_OFFSETS)
        self.high_watermarks = checkpoint(checkpoints.HIGH_WATERMARKS)
        self.cleaner_offsets = checkpoint(checkpoints.CLEANER_OFFSETS)
        # What was flushed is unknown: the file is missing or corrupt.
        self.lacks_recovery_points = False
        self.problems: list[str] = []
        self._disk = disk

    @property
    def is_saving(self) -> bool:
        """Whether a background save is running."""
        return any(each.is_saving for each in self._all())

    def load(self) -> None:
        """Load all files; as in Kafka, a corrupt one counts as missing."""
        self.lacks_recovery_points = self._disk.status(self.recovery_points.path) is None
        for each in self._all():
            try:
                each.load()
            except CorruptFile as error:
                self.problems.append(f"Ignoring corrupt checkpoint: file={each.path} error={error}")
                if each is self.recovery_points:
                    self.lacks_recovery_points = True

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions that have an entry, each once."""
        return list({partition: None for each in self._all() for partition in each.offsets})

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions; files without an entry of any of them are not rewritten.

        High watermarks too: a re-created topic that inherits one would, after a crash, expose
        records that other replicas may not have.
        """
        gone = list(partitions)
        for each in self._all():
            if each.forget(gone):
                each.save()

    def update_recovery_points(self, logs: Iterable[UnifiedLog]) -> CheckpointFile:
        self.recovery_points.offsets.update((log.partition, log.recovery_point) for log in logs)
        return self.recovery_points

    def update_log_starts(self, logs: Iterable[UnifiedLog]) -> CheckpointFile:
        """Update log starts above the first segment's base; file names tell the others."""
        starts = self.log_starts.offsets
        for log in logs:
            if log.log_start_offset > log.local_log.segments.first.base_offset:
                starts[log.partition] = log.log_start_offset
            else:
                starts.pop(log.partition, None)
        return self.log_starts

    def update_high_watermarks(self, logs: Iterable[UnifiedLog]) -> CheckpointFile:
        self.high_watermarks.offsets.update((log.partition, log.high_watermark) for log in logs)
        return self.high_watermarks

    def update_cleaner_offsets(self, logs: Iterable[UnifiedLog]) -> CheckpointFile:
        """Update the first dirty offset of each compacted log."""
        ends = self.cleaner_offsets.offsets
        for log in logs:
            if log.first_dirty_offset is None:
                ends.pop(log.partition, None)
            else:
                ends[log.partition] = log.first_dirty_offset
        return self.cleaner_offsets

    def _all(self) -> tuple[CheckpointFile, ...]:
        return (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaner_offsets)
