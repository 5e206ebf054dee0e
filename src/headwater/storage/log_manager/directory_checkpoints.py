"""What one log directory remembers of its logs: four checkpoints, in memory and on disk.

Recovery points, log starts, high watermarks and the ends of the compacted parts. What they say of
a log that nobody has opened since the start is carried over whenever they are written anew.

What a reader would get wrong: a partition that goes must be forgotten on disk before its name is
free. A namesake would inherit a recovery point, and the start after a crash would trust bytes that
were never flushed.
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
    """The checkpoints of one directory. `note_...` brings one up to date; it is saved apart."""

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
        # Nobody knows what was flushed: the file is not there, or it is damaged.
        self.lacks_recovery_points = False
        self.damages: list[str] = []
        self._disk = disk

    @property
    def is_saving(self) -> bool:
        """Whether a job of any of them is under way."""
        return any(each.is_saving for each in self._all())

    def load(self) -> None:
        """A damaged checkpoint counts as absent, which costs a longer recovery (as in Kafka)."""
        self.lacks_recovery_points = self._disk.status(self.recovery_points.path) is None
        for each in self._all():
            try:
                each.load()
            except CorruptFile as error:
                self.damages.append(f"{each.path} is ignored: {error}")
                if each is self.recovery_points:
                    self.lacks_recovery_points = True

    def partitions(self) -> list[TopicPartition]:
        """All that are spoken of, each once."""
        return list({partition: None for each in self._all() for partition in each.offsets})

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop what is known of some partitions; a file that told of none of them stays.

        High watermarks too: a namesake that inherits one would show its readers, after a crash,
        all that it has, and other replicas may not have it.
        """
        gone = list(partitions)
        for each in self._all():
            if each.forget(gone):
                each.save()

    def note_recovery_points(self, logs: Iterable[UnifiedLog]) -> CheckpointFile:
        self.recovery_points.offsets.update((log.partition, log.recovery_point) for log in logs)
        return self.recovery_points

    def note_log_starts(self, logs: Iterable[UnifiedLog]) -> CheckpointFile:
        """Only starts above the first segment's base: the others are told by the files."""
        starts = self.log_starts.offsets
        for log in logs:
            if log.log_start_offset > log.body.segments.first.base_offset:
                starts[log.partition] = log.log_start_offset
            else:
                starts.pop(log.partition, None)
        return self.log_starts

    def note_high_watermarks(self, logs: Iterable[UnifiedLog]) -> CheckpointFile:
        self.high_watermarks.offsets.update((log.partition, log.high_watermark) for log in logs)
        return self.high_watermarks

    def note_cleaner_offsets(self, logs: Iterable[UnifiedLog]) -> CheckpointFile:
        """Where the clean part of each compacted log ends."""
        ends = self.cleaner_offsets.offsets
        for log in logs:
            if log.first_dirty_offset is None:
                ends.pop(log.partition, None)
            else:
                ends[log.partition] = log.first_dirty_offset
        return self.cleaner_offsets

    def _all(self) -> tuple[CheckpointFile, ...]:
        return (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaner_offsets)
