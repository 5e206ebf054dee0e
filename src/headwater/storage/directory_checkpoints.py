"""What one log directory remembers of its logs: four checkpoints, in memory and on disk.

Recovery points, log starts, high watermarks and the ends of the compacted parts. What they say of
a log that nobody has opened since the start is carried over whenever they are written anew.

What a reader would get wrong: a partition that goes must be forgotten on disk before its name is
free. A namesake would inherit a recovery point, and the start after a crash would trust bytes that
were never flushed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from headwater.model.failures import CorruptFile
from headwater.model.ids import TopicPartition
from headwater.storage import checkpoints
from headwater.storage.disk import Disk
from headwater.storage.partition_log import PartitionLog

Offsets = dict[TopicPartition, int]


class DirectoryCheckpoints:
    """The checkpoints of one directory. Every `save` is durable on return."""

    def __init__(self, disk: Disk, path: PurePath) -> None:
        self._disk = disk
        self._path = path
        self.recovery_points: Offsets = {}
        self.log_starts: Offsets = {}
        self.high_watermarks: Offsets = {}
        self.cleaner_offsets: Offsets = {}
        # Nobody knows what was flushed: the file is not there, or it is damaged.
        self.lacks_recovery_points = False
        self.damages: list[str] = []

    def load(self) -> None:
        path = self._path / checkpoints.RECOVERY_POINTS
        self.lacks_recovery_points = self._disk.status(path) is None
        self.recovery_points = self._load(checkpoints.RECOVERY_POINTS)
        self.log_starts = self._load(checkpoints.LOG_START_OFFSETS)
        self.high_watermarks = self._load(checkpoints.HIGH_WATERMARKS)
        self.cleaner_offsets = self._load(checkpoints.CLEANER_OFFSETS)

    def partitions(self) -> list[TopicPartition]:
        """All that are spoken of, each once."""
        return list(
            self.recovery_points | self.log_starts | self.high_watermarks | self.cleaner_offsets
        )

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop what is known of some partitions; a file that told of none of them stays.

        A high watermark goes from its file with the next regular save, which may be under way: it
        is bounded by the log's end, so a namesake that inherits one takes no harm.
        """
        gone = list(partitions)
        for partition in gone:
            self.high_watermarks.pop(partition, None)
        for name, offsets in (
            (checkpoints.RECOVERY_POINTS, self.recovery_points),
            (checkpoints.LOG_START_OFFSETS, self.log_starts),
            (checkpoints.CLEANER_OFFSETS, self.cleaner_offsets),
        ):
            known = [partition for partition in gone if partition in offsets]
            for partition in known:
                del offsets[partition]
            if known:
                self._save(name, offsets)

    def save_recovery_points(self, logs: Iterable[PartitionLog]) -> None:
        self.recovery_points.update((log.partition, log.recovery_point) for log in logs)
        self._save(checkpoints.RECOVERY_POINTS, self.recovery_points)

    def save_log_starts(self, logs: Iterable[PartitionLog]) -> None:
        """Only starts above the first segment's base: the others are told by the files."""
        for log in logs:
            if log.log_start_offset > log.body.segments.first.base_offset:
                self.log_starts[log.partition] = log.log_start_offset
            else:
                self.log_starts.pop(log.partition, None)
        self._save(checkpoints.LOG_START_OFFSETS, self.log_starts)

    def note_high_watermarks(self, logs: Iterable[PartitionLog]) -> bytes:
        """The content of their file: it is written every few seconds, so off the loop."""
        self.high_watermarks.update((log.partition, log.high_watermark) for log in logs)
        return checkpoints.encode_offsets(self.high_watermarks)

    def save_high_watermarks(self, logs: Iterable[PartitionLog]) -> None:
        self.note_high_watermarks(logs)
        self._save(checkpoints.HIGH_WATERMARKS, self.high_watermarks)

    def save_cleaner_offsets(self, logs: Iterable[PartitionLog]) -> None:
        """Where the clean part of each compacted log ends."""
        for log in logs:
            if log.first_dirty_offset is None:
                self.cleaner_offsets.pop(log.partition, None)
            else:
                self.cleaner_offsets[log.partition] = log.first_dirty_offset
        self._save(checkpoints.CLEANER_OFFSETS, self.cleaner_offsets)

    def _load(self, name: str) -> Offsets:
        """A damaged checkpoint counts as absent, which costs a longer recovery (as in Kafka)."""
        try:
            return checkpoints.load_offsets(self._disk, self._path / name)
        except CorruptFile as error:
            self.damages.append(f"{self._path / name} is ignored: {error}")
            if name == checkpoints.RECOVERY_POINTS:
                self.lacks_recovery_points = True
            return {}

    def _save(self, name: str, offsets: Offsets) -> None:
        checkpoints.save_offsets(self._disk, self._path / name, offsets)
