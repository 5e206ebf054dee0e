"""One log directory: its lock, its identity, its checkpoints and the logs in it.

After a clean stop a log is opened when it is first asked for, so a broker with ten thousand
partitions is ready at once; after a crash all of them are recovered first. Until a log is opened,
what the checkpoints said of it is carried over whenever they are written anew.

A directory whose disk failed is fenced: its logs answer with the failure and nothing is written
there any more, while the other directories go on (RC-5).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from headwater.model.failures import (
    BatchError,
    CorruptFile,
    StorageError,
    TooMuchWork,
    UnreadableLog,
)
from headwater.model.ids import TopicId, TopicPartition
from headwater.model.ports import Dice
from headwater.model.topic_settings import TopicSettings
from headwater.storage import (
    checkpoints,
    clean_shutdown,
    meta_properties,
    partition_metadata,
)
from headwater.storage.disk import Disk, make_directory_durably, write_atomically
from headwater.storage.executor import Executor
from headwater.storage.loading import LoadReport, LogPlace, Remembered, load_log
from headwater.storage.meta_properties import MetaProperties
from headwater.storage.open_files import OpenFiles
from headwater.storage.partition_folders import (
    METADATA_TOPIC,
    UNIQUE_BYTES,
    FolderKind,
    deleted_name,
    live_name,
    parse_folder_name,
)
from headwater.storage.partition_log import LogEvents, PartitionLog
from headwater.storage.removals import PendingRemovals

SettingsFor = Callable[[str], TopicSettings]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTools:
    """What all directories of a broker share."""

    node_id: int
    cluster_id: str
    disk: Disk
    files: OpenFiles
    executor: Executor
    dice: Dice
    settings_for: SettingsFor


class LogDirectory:
    """The partitions in one folder. Opened by `open`, ended by `close` or by a failure."""

    def __init__(self, path: PurePath, tools: DirectoryTools) -> None:
        self.path = path
        self.directory_id: str | None = None
        self.failure: StorageError | None = None
        self.reports: dict[TopicPartition, LoadReport] = {}
        self.broken: dict[TopicPartition, UnreadableLog] = {}
        self.notes: list[str] = []
        self._tools = tools
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._unopened: dict[TopicPartition, PurePath] = {}
        self._file_removals = PendingRemovals()
        self._tree_removals = PendingRemovals()
        self._was_clean = True
        self._is_foreign = False
        self._is_saving = False
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._cleaner_offsets: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return len(self._logs) + len(self._unopened) + len(self.broken)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._logs or partition in self._unopened or partition in self.broken

    def partitions(self) -> list[TopicPartition]:
        return [*self._logs, *self._unopened, *self.broken]

    def open_some(self, limit: int, *, now_ms: int) -> None:
        """Open a few of the logs that nobody has asked for yet, so that retention reaches them."""
        for partition in list(itertools.islice(self._unopened, limit)):
            with suppress(UnreadableLog):
                self.log(partition, now_ms=now_ms)

    def opened(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def open(self, now_ms: int) -> None:
        """Read the checkpoints and find the logs; after a crash, recover all of them."""
        disk = self._tools.disk
        make_directory_durably(disk, self.path)
        self._check_identity()
        self._was_clean = clean_shutdown.load(disk, self.path) is not None
        self._is_foreign = disk.status(self.path / checkpoints.RECOVERY_POINTS) is None
        self._recovery_points = self._load(checkpoints.RECOVERY_POINTS)
        self._log_starts = self._load(checkpoints.LOG_START_OFFSETS)
        self._high_watermarks = self._load(checkpoints.HIGH_WATERMARKS)
        self._cleaner_offsets = self._load(checkpoints.CLEANER_OFFSETS)
        for name in disk.names(self.path):
            self._find(name, now_ms)
        known = [*self._recovery_points, *self._log_starts, *self._high_watermarks]
        self._forget({each: None for each in known if each not in self._unopened})
        if not self._was_clean:
            self._recover_all(now_ms)
        if self._is_foreign:
            self.save_recovery_points()
        # From here on only another clean stop makes the next start trust what it finds.
        clean_shutdown.remove(disk, self.path)

    def log(self, partition: TopicPartition, *, now_ms: int) -> PartitionLog:
        """The log of a partition of this directory, opened if need be."""
        self.check_serving()
        log = self._logs.get(partition)
        if log is not None:
            return log
        if partition in self.broken:
            raise self.broken[partition]
        folder = self._unopened.pop(partition)
        try:
            return self._open_log(partition, folder, now_ms)
        except (BatchError, CorruptFile) as error:
            failure = self.broken[partition] = UnreadableLog(f"{folder} is not opened: {error}")
            raise failure from error

    def create(self, partition: TopicPartition, topic_id: TopicId, *, now_ms: int) -> PartitionLog:
        """Start the log of a new partition."""
        self.check_serving()
        assert partition not in self, f"{partition} is here already"
        disk, folder = self._tools.disk, self.path / live_name(partition)
        disk.make_directory(folder)
        partition_metadata.save(disk, folder, topic_id)
        disk.sync_directory(self.path)
        return self._open_log(partition, folder, now_ms)

    def topic_id(self, partition: TopicPartition) -> TopicId | None:
        return partition_metadata.load(self._tools.disk, self.path / live_name(partition))

    def delete(self, partition: TopicPartition, *, now_ms: int) -> None:
        """Take a partition away at once; its folder goes later."""
        self.check_serving()
        delay_ms = self._tools.settings_for(partition.topic).file_delete_delay_ms
        log = self._logs.pop(partition, None)
        if log is not None:
            log.abandon()
        self._unopened.pop(partition, None)
        self.broken.pop(partition, None)
        self.reports.pop(partition, None)
        self._forget({partition: None})
        # On disk first: a topic of the same name may come next, and must not inherit from this one.
        self.save_recovery_points()
        self.save_log_starts()
        self.save_cleaner_offsets()
        target = self.path / deleted_name(partition, self._tools.dice.bytes(UNIQUE_BYTES))
        self._tools.disk.rename(self.path / live_name(partition), target)
        self._tools.disk.sync_directory(self.path)
        self._tree_removals.add([target], now_ms=now_ms, delay_ms=delay_ms)

    def remove_due(self, now_ms: int) -> None:
        """Unlink what has waited long enough, off the loop."""
        files, trees = self._file_removals.take_due(now_ms), self._tree_removals.take_due(now_ms)
        if files or trees:
            disk = self._tools.disk

            def job() -> None:
                for file in files:
                    disk.remove(file)
                for tree in trees:
                    disk.remove_tree(tree)

            try:
                self._tools.executor.submit(job, then=lambda _: None, otherwise=self.fence)
            except TooMuchWork:
                self._file_removals.add(files, now_ms=now_ms, delay_ms=0)
                self._tree_removals.add(trees, now_ms=now_ms, delay_ms=0)

    def save_recovery_points(self) -> None:
        """Write them here and now: a lowered one must be on disk before the log is cut."""
        self._recovery_points.update(
            (partition, log.recovery_point) for partition, log in self._logs.items()
        )
        self._save(checkpoints.RECOVERY_POINTS, self._recovery_points)

    def save_log_starts(self) -> None:
        """Only starts above the first segment's base: the others are told by the files."""
        for partition, log in self._logs.items():
            if log.log_start_offset > log.body.segments.first.base_offset:
                self._log_starts[partition] = log.log_start_offset
            else:
                self._log_starts.pop(partition, None)
        self._save(checkpoints.LOG_START_OFFSETS, self._log_starts)

    def save_high_watermarks(self) -> None:
        """Every few seconds, so off the loop; one that is still being written is not overtaken."""
        self._note_high_watermarks()
        if self._is_saving:
            return
        self._is_saving = True
        disk, path = self._tools.disk, self.path / checkpoints.HIGH_WATERMARKS
        content = checkpoints.encode_offsets(self._high_watermarks)

        def saved(_: None) -> None:
            self._is_saving = False

        try:
            self._tools.executor.submit(
                lambda: write_atomically(disk, path, content), then=saved, otherwise=self.fence
            )
        except TooMuchWork:
            self._is_saving = False

    def save_cleaner_offsets(self) -> None:
        """Where the clean part of each compacted log ends."""
        for partition, log in self._logs.items():
            if log.first_dirty_offset is None:
                self._cleaner_offsets.pop(partition, None)
            else:
                self._cleaner_offsets[partition] = log.first_dirty_offset
        self._save(checkpoints.CLEANER_OFFSETS, self._cleaner_offsets)

    def close(self, *, broker_epoch: int) -> None:
        """Flush everything and say so; the executor has nothing of ours left to do."""
        if self.failure is not None:
            return
        for log in self._logs.values():
            log.close()
        assert not self._is_saving, "the executor is drained before directories are closed"
        self.save_recovery_points()
        self.save_log_starts()
        self.save_cleaner_offsets()
        self._note_high_watermarks()
        self._save(checkpoints.HIGH_WATERMARKS, self._high_watermarks)
        for path in self._file_removals.take_all():
            self._tools.disk.remove(path)
        clean_shutdown.save(self._tools.disk, self.path, broker_epoch)

    def fence(self, error: StorageError) -> None:
        """The disk failed: nothing here is trusted or touched any more."""
        if self.failure is None:
            self.failure = error
            for log in self._logs.values():
                log.fence(error)

    def check_serving(self) -> None:
        if self.failure is not None:
            raise StorageError(f"{self.path} is offline: {self.failure}")

    def _note_high_watermarks(self) -> None:
        self._high_watermarks.update(
            (partition, log.high_watermark) for partition, log in self._logs.items()
        )

    def _open_log(self, partition: TopicPartition, folder: PurePath, now_ms: int) -> PartitionLog:
        tools = self._tools
        place = LogPlace(
            disk=tools.disk,
            files=tools.files,
            removals=self._file_removals,
            folder=folder,
            partition=partition,
        )
        remembered = Remembered(
            was_clean=self._was_clean,
            recovery_point=self._recovery_points.get(partition, 0),
            log_start_offset=self._log_starts.get(partition, 0),
            first_dirty_offset=self._cleaner_offsets.get(partition),
            is_foreign=self._is_foreign,
        )
        loaded = load_log(place, tools.settings_for(partition.topic), remembered, now_ms=now_ms)
        events = LogEvents(
            failed=self.fence,
            recovery_point_lowered=self.save_recovery_points,
            log_start_lowered=self.save_log_starts,
            first_dirty_lowered=self.save_cleaner_offsets,
        )
        log = PartitionLog(loaded.parts, executor=tools.executor, events=events)
        log.raise_high_watermark(self._high_watermarks.get(partition, 0))
        self._logs[partition] = log
        self.reports[partition] = loaded.report
        if log.recovery_point < remembered.recovery_point:
            # The log is shorter than was promised. What is appended next was never flushed, and
            # the next start must not believe that it was.
            self.save_recovery_points()
        if log.first_dirty_offset != remembered.first_dirty_offset:
            # Nor may it take a hole in what is appended next for compaction's.
            self.save_cleaner_offsets()
        return log

    def _check_identity(self) -> None:
        """Refuse the directory of another broker; a new one gets our name, and an id of its own."""
        tools = self._tools
        meta = meta_properties.load(tools.disk, self.path)
        if meta is not None:
            meta.check(node_id=tools.node_id, cluster_id=tools.cluster_id)
        if meta is None or meta.directory_id is None:
            directory_id = str(TopicId(tools.dice.bytes(UNIQUE_BYTES)))
            meta = MetaProperties(
                node_id=tools.node_id, cluster_id=tools.cluster_id, directory_id=directory_id
            )
            meta_properties.save(tools.disk, self.path, meta)
        self.directory_id = meta.directory_id

    def _recover_all(self, now_ms: int) -> None:
        """A log that cannot be opened stays in `broken`, and the others serve."""
        for partition in list(self._unopened):
            with suppress(UnreadableLog):
                # In the background, so that the next start need not look at all of it again.
                self.log(partition, now_ms=now_ms).flush()

    def _find(self, name: str, now_ms: int) -> None:
        folder, path = parse_folder_name(name), self.path / name
        if folder is None or self._tools.disk.status(path) is not None:
            return
        if folder.partition.topic == METADATA_TOPIC:
            return
        match folder.kind:
            case FolderKind.LIVE:
                self._unopened[folder.partition] = path
            case FolderKind.DELETED:
                self._tree_removals.add([path], now_ms=now_ms, delay_ms=0)
            case _:
                # A move between directories or a stray: whoever decides about those finds them.
                return

    def _load(self, name: str) -> dict[TopicPartition, int]:
        """A damaged checkpoint counts as absent, which costs a longer recovery (as in Kafka)."""
        try:
            return checkpoints.load_offsets(self._tools.disk, self.path / name)
        except CorruptFile as error:
            self.notes.append(f"{self.path / name} is ignored: {error}")
            self._was_clean = False
            # Then nobody knows what was flushed, just as if it were missing.
            self._is_foreign = self._is_foreign or name == checkpoints.RECOVERY_POINTS
            return {}

    def _save(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        checkpoints.save_offsets(self._tools.disk, self.path / name, offsets)

    def _forget(self, gone: dict[TopicPartition, None]) -> None:
        for remembered in (
            self._recovery_points,
            self._log_starts,
            self._high_watermarks,
            self._cleaner_offsets,
        ):
            for partition in gone:
                remembered.pop(partition, None)
