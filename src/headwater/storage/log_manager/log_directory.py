"""One log directory: lock, meta.properties, checkpoints and logs.

After a clean shutdown a log is opened when it is first used, so a broker with ten thousand
partitions is ready at once; after a crash all logs are recovered first.

Note: a new partition is not durable before its log's first flush. The cluster metadata is the
source of truth: if a power cut took the directory of a partition, it is created again, and a
directory without `partition.metadata` is adopted.

A directory whose disk failed goes offline: its logs answer with the failure and nothing is written
there any more, while the other directories continue (RC-5).

Damage is logged as a warning when it is found: at start after a crash, otherwise when a log is
first used.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath

from headwater.common.elapsed import has_passed
from headwater.common.exceptions import (
    BatchError,
    CorruptFile,
    StorageError,
    TooManyOpenFiles,
    UnreadableLog,
)
from headwater.common.ids import NO_EPOCH, TopicId, TopicPartition
from headwater.common.ports import Random
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.io.disk import Disk, Volume, make_directory_durably
from headwater.storage.io.executor import Executor
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log import partition_metadata_file, segment_files
from headwater.storage.log.log_loader import (
    CheckpointedState,
    LoadedLog,
    LoadReport,
    LogLocation,
    load_log,
    new_log,
)
from headwater.storage.log.unified_log import LogEvents, LogParts, UnifiedLog
from headwater.storage.log_manager import clean_shutdown_file, log_dir_move_count, meta_properties
from headwater.storage.log_manager.directory_checkpoints import DirectoryCheckpoints
from headwater.storage.log_manager.future_logs import FutureLogs
from headwater.storage.log_manager.partition_directory_names import (
    METADATA_TOPIC,
    UNIQUE_BYTES,
    DirectoryKind,
    deleted_name,
    live_name,
    parse_directory_name,
    stray_name,
)
from headwater.storage.log_manager.pending_deletes import PendingDirectoryDeletes
from headwater.storage.log_manager.recovery_pool import InlineRecovery, Loads, RecoveryPool

SettingsFor = Callable[[str], TopicSettings]

_log = logging.getLogger(__name__)

# Enough for one segment with its indexes, and the one that recovery goes on to.
_FILES_OF_A_LOAD = 16
# Each flush holds a few descriptors, and a crash may leave thousands of logs unflushed.
_CONCURRENT_FLUSHES = 16
# A broker with ten thousand busy partitions spends less than 1% of its time on this.
_EARLY_SAVE_INTERVAL_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTools:
    """Dependencies shared by all log directories of a broker."""

    node_id: int
    cluster_id: str
    disk: Disk
    files: OpenFiles
    executor: Executor
    rng: Random
    settings_for: SettingsFor
    recovery: RecoveryPool = field(default_factory=InlineRecovery)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Result of loading a log: the log, or why it cannot be read."""

    result: LoadedLog | BatchError | CorruptFile
    files: OpenFiles


class LogDirectory:
    """Partitions of a log directory, from `open` until `close` or a failure."""

    def __init__(self, path: PurePath, tools: DirectoryTools) -> None:
        self.path = path
        self.directory_id: str | None = None
        self.failure: StorageError | None = None
        self.reports: dict[TopicPartition, LoadReport] = {}
        self.unreadable_logs: dict[TopicPartition, UnreadableLog] = {}
        self._tools = tools
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._unopened: dict[TopicPartition, PurePath] = {}
        self._removals = PendingDirectoryDeletes(tools.disk)
        self._checkpoints = DirectoryCheckpoints(
            tools.disk, path, executor=tools.executor, failed=self.fence
        )
        self.futures = FutureLogs(
            tools.disk,
            path,
            tools.rng,
            load=self._load,
            make=self._make,
            forget=lambda partition: self._checkpoints.forget([partition]),
            remove_later=self._remove_later,
        )
        self._was_clean = True
        self.clean_broker_epoch: int | None = None
        """The broker epoch of the process that shut down cleanly; None after a crash."""
        # Logs being recovered, and the result of the load that is opened next.
        self._loads: Loads[_Loaded | None] | None = None
        self._loaded: _Loaded | None = None
        # Logs that a crash left unflushed, and the number of flushes in progress.
        self._unflushed: deque[UnifiedLog] = deque()
        self._flushes = 0
        self._has_flushed_segments = False
        self._saved_early_ms: int | None = None
        self._events = LogEvents(
            failed=self.fence,
            recovery_point_lowered=self.save_recovery_points,
            segments_flushed=self._mark_segments_flushed,
            log_start_lowered=self.save_log_starts,
            first_dirty_lowered=self.save_cleaner_offsets,
        )

    def __len__(self) -> int:
        return len(self._logs) + len(self._unopened) + len(self.unreadable_logs)

    def __contains__(self, partition: TopicPartition) -> bool:
        return (
            partition in self._logs
            or partition in self._unopened
            or partition in self.unreadable_logs
        )

    @property
    def was_clean(self) -> bool:
        """Whether the last shutdown was clean, so that nothing can have been lost."""
        return self._was_clean

    def partitions(self) -> list[TopicPartition]:
        return [*self._logs, *self._unopened, *self.unreadable_logs]

    def open_some(self, limit: int, *, now_ms: int) -> None:
        """Open a few logs that have not been used yet, so that retention applies to them."""
        for partition in list(itertools.islice(self._unopened, limit)):
            with suppress(UnreadableLog, TooManyOpenFiles):
                self.log(partition, now_ms=now_ms)

    def opened(self) -> Iterator[UnifiedLog]:
        return iter(list(self._logs.values()))

    def open(self, now_ms: int) -> None:
        """Read the checkpoints and find the logs; after a crash, recover all of them."""
        self.begin_open(now_ms)
        self.finish_open(now_ms)

    def begin_open(self, now_ms: int) -> None:
        """Read the checkpoints, find the logs, begin to recover them if needed."""
        disk = self._tools.disk
        make_directory_durably(disk, self.path)
        self._check_identity()
        self._checkpoints.load()
        problems = self._checkpoints.problems
        for problem in problems:
            _log.warning("%s", problem)
        clean = clean_shutdown_file.load(disk, self.path)
        self._was_clean = clean is not None and not problems
        self.clean_broker_epoch = clean.broker_epoch if clean is not None and not problems else None
        for name in disk.names(self.path):
            self._find(name, now_ms)
        # A power cut may have taken a directory that was never flushed, and a new one of the same
        # name must not inherit its offsets.
        known = self._checkpoints.partitions()
        self._checkpoints.forget(
            each for each in known if each not in self._unopened and each not in self.futures
        )
        if not self._was_clean:
            self._begin_recovery(now_ms)

    def finish_open(self, now_ms: int) -> None:
        """Wait until all logs are recovered. From here on the directory serves."""
        if not self._was_clean:
            self._finish_recovery(now_ms)
        if self._checkpoints.lacks_recovery_points:
            self.save_recovery_points()
        # From here on only another clean shutdown makes the next start skip recovery.
        clean_shutdown_file.remove(self._tools.disk, self.path)

    def stop_recovery(self) -> None:
        """Drop the loads that have not begun, and wait for the others."""
        if self._loads is not None:
            self._loads.close()
            self._loads = None

    def log(self, partition: TopicPartition, *, now_ms: int) -> UnifiedLog:
        """Return the log of a partition of this directory, opening it if needed."""
        self.check_serving()
        log = self._logs.get(partition)
        if log is not None:
            return log
        if partition in self.unreadable_logs:
            raise self.unreadable_logs[partition]
        folder = self._unopened.pop(partition)
        try:
            return self._open_log(partition, folder, now_ms)
        except TooManyOpenFiles:
            self._unopened[partition] = folder
            raise
        except (BatchError, CorruptFile) as error:
            failure = self.unreadable_logs[partition] = UnreadableLog(
                f"cannot open {folder}: {error}"
            )
            _log.warning("Cannot open log: directory=%s error=%s", folder, error)
            raise failure from error

    def create(self, partition: TopicPartition, topic_id: TopicId, *, now_ms: int) -> UnifiedLog:
        """Create the log of a new partition. Nothing is synced: see the module docstring."""
        self.check_serving()
        assert partition not in self, f"{partition} is already in this directory"
        log = self._make(partition, self.path / live_name(partition), topic_id, now_ms)
        self._logs[partition] = log
        return log

    def topic_id(self, partition: TopicPartition) -> TopicId | None:
        """Return the topic id, or None if a power cut took it: then `adopt` the partition."""
        try:
            return partition_metadata_file.load(self._tools.disk, self.path / live_name(partition))
        except CorruptFile as error:
            _log.warning("Cannot read partition.metadata: partition=%s error=%s", partition, error)
            return None

    def size_bytes(self, partition: TopicPartition) -> int:
        """Return a partition's size without opening its log."""
        log = self._logs.get(partition)
        if log is not None:
            return log.size_bytes
        disk, folder = self._tools.disk, self.path / live_name(partition)
        logs = (name for name in disk.names(folder) if name.endswith(segment_files.LOG))
        found = (disk.status(folder / name) for name in logs)
        return sum(status.size for status in found if status is not None)

    def volume(self) -> Volume:
        return self._tools.disk.volume(self.path)

    def adopt(self, partition: TopicPartition, topic_id: TopicId) -> None:
        """Write the topic id again, as often as a power cut takes it."""
        self.check_serving()
        partition_metadata_file.write(self._tools.disk, self.path / live_name(partition), topic_id)
        log = self._logs.get(partition)
        if log is not None:
            # A flush may have been running already and did not sync the file.
            log.local_log.is_folder_durable = False

    def delete_all(self, partitions: Sequence[TopicPartition], *, now_ms: int) -> None:
        """Remove partitions; their directories are deleted later."""
        self._remove_checkpoints(partitions)
        for partition in partitions:
            self._delete_later(partition, now_ms)
        self._tools.disk.sync_directory(self.path)

    def set_aside(self, partitions: Sequence[TopicPartition]) -> None:
        """Rename unassigned partitions to `-stray`, for an operator to review."""
        self._remove_checkpoints(partitions)
        for partition in partitions:
            target = self.path / stray_name(partition, self._tools.rng.bytes(UNIQUE_BYTES))
            self._tools.disk.rename(self.path / live_name(partition), target)
            _log.warning("Renamed stray partition: partition=%s directory=%s", partition, target)
        self._tools.disk.sync_directory(self.path)

    def move_count(self, partition: TopicPartition) -> int:
        """Return the move count of a partition's directory (see `log_dir_move_count`)."""
        return log_dir_move_count.load(self._tools.disk, self.path / live_name(partition))

    def raise_move_count(self, partition: TopicPartition, count: int) -> None:
        log_dir_move_count.save(self._tools.disk, self.path / live_name(partition), count)

    def replace_with_future(self, log: UnifiedLog, *, count: int, now_ms: int) -> None:
        """Continue a log here, from its complete future log.

        Once the copy is renamed, the log is here, whatever happens next. Until then a failure has
        changed nothing for the log.
        """
        self.check_serving()
        partition, copy = log.partition, self.futures.get(log.partition)
        assert copy is not None, f"{partition} has no future log here"
        copy.close_as_copy_of(log, now_ms=now_ms)
        log_dir_move_count.save(self._tools.disk, copy.folder, count)
        # The offsets checkpointed in the former directory must be on disk here.
        self.save_recovery_points()
        self.save_log_starts()
        self.save_cleaner_offsets()
        self._checkpoints.update_high_watermarks(self._all_logs()).save()
        folder = self.futures.promote(partition)
        self._logs[partition] = log
        log.move_to(copy.local_log.renamed(folder), self._events)

    def create_future(
        self, partition: TopicPartition, topic_id: TopicId, *, now_ms: int
    ) -> UnifiedLog:
        """Create a future log for a log in another directory."""
        self.check_serving()
        if partition in self:
            raise StorageError(f"{self.path} already has a directory of {partition}")
        return self.futures.create(partition, topic_id, now_ms=now_ms)

    def open_future(self, partition: TopicPartition, *, now_ms: int) -> UnifiedLog:
        self.check_serving()
        log = self.futures.open(partition, now_ms=now_ms)
        # It may be shorter than its checkpointed offsets (see `_open_log`).
        self.save_recovery_points()
        self.save_cleaner_offsets()
        return log

    def drop_future(self, partition: TopicPartition, *, now_ms: int) -> None:
        self.check_serving()
        self.futures.drop(partition, now_ms=now_ms)

    def promote_future(self, partition: TopicPartition) -> None:
        """Make a future log the log itself, because there is no other."""
        self.check_serving()
        self._unopened[partition] = self.futures.promote(partition)

    def remove_moved(self, partition: TopicPartition, *, now_ms: int) -> None:
        """Remove the directory of a log that has moved to another directory."""
        self._logs.pop(partition, None)
        self.reports.pop(partition, None)
        self.delete_all([partition], now_ms=now_ms)

    def _remove_checkpoints(self, partitions: Sequence[TopicPartition]) -> None:
        self.check_serving()
        for partition in partitions:
            log = self._logs.pop(partition, None)
            if log is not None:
                log.discard()
            self._unopened.pop(partition, None)
            self.unreadable_logs.pop(partition, None)
            self.reports.pop(partition, None)
        # On disk first: a topic of the same name may be created next and must not inherit these
        # offsets.
        self._checkpoints.forget(partitions)

    def _delete_later(self, partition: TopicPartition, now_ms: int) -> None:
        target = self.path / deleted_name(partition, self._tools.rng.bytes(UNIQUE_BYTES))
        self._tools.disk.rename(self.path / live_name(partition), target)
        self._remove_later(target, partition, now_ms)

    def _remove_later(self, folder: PurePath, partition: TopicPartition, now_ms: int) -> None:
        delay_ms = self._tools.settings_for(partition.topic).file_delete_delay_ms
        self._removals.trees.add([folder], now_ms=now_ms, delay_ms=delay_ms)

    def remove_due(self, now_ms: int) -> None:
        """Delete some of the files whose delay has passed, off the event loop."""
        self._removals.remove_due(now_ms, self._tools.executor, failed=self.fence)

    def save_recovery_points(self) -> None:
        """Write the recovery points now, before a truncation below them."""
        self._checkpoints.update_recovery_points(self._all_logs()).save()

    def save_recovery_points_later(self) -> None:
        """Write raised recovery points off the event loop."""
        if self._checkpoints.update_recovery_points(self._all_logs()).save_later():
            self._has_flushed_segments = False

    def save_flushed_segments(self, now_ms: int) -> None:
        """Write recovery points soon after a segment is flushed; recovery skips it.

        Delayed a little, because many logs that roll together share one write.
        """
        if self._has_flushed_segments and has_passed(
            self._saved_early_ms, _EARLY_SAVE_INTERVAL_MS, now_ms
        ):
            self._saved_early_ms = now_ms
            self.save_recovery_points_later()

    def flush_recovered(self) -> None:
        """Flush recovered logs a few at a time, so that the next start skips them.

        A log that finds no free descriptor is flushed with its next segment.
        """
        while self._unflushed and self._flushes < _CONCURRENT_FLUSHES:
            self._flushes += 1
            self._unflushed.popleft().flush(self._flushed)

    def _flushed(self, _: StorageError | None) -> None:
        self._flushes -= 1

    def save_log_starts(self) -> None:
        self._checkpoints.update_log_starts(self._all_logs()).save()

    def save_log_starts_later(self) -> None:
        self._checkpoints.update_log_starts(self._all_logs()).save_later()

    def save_cleaner_offsets(self) -> None:
        self._checkpoints.update_cleaner_offsets(self._all_logs()).save()

    def save_high_watermarks_later(self) -> None:
        self._checkpoints.update_high_watermarks(self._all_logs()).save_later()

    def close(self, *, broker_epoch: int) -> None:
        """Flush everything and mark a clean shutdown, after all jobs have ended.

        A process that never registered has led and followed nothing, so the proof of the process
        before it is still true.
        """
        if self.failure is not None:
            return
        if broker_epoch == NO_EPOCH and self.clean_broker_epoch is not None:
            broker_epoch = self.clean_broker_epoch
        for log in self._logs.values():
            log.close()
        self.futures.close()
        assert not self._checkpoints.is_saving, "the executor is drained before this"
        self.save_recovery_points()
        self.save_log_starts()
        self.save_cleaner_offsets()
        self._checkpoints.update_high_watermarks(self._all_logs()).save()
        for path in self._removals.files.take_all():
            self._tools.disk.remove(path)
        clean_shutdown_file.save(self._tools.disk, self.path, broker_epoch)

    def fence(self, error: StorageError) -> None:
        """Take the directory offline: nothing here is trusted or touched any more."""
        if self.failure is None:
            self.failure = error
            for log in self._logs.values():
                log.fence(error)
            self.futures.fence(error)

    def check_serving(self) -> None:
        if self.failure is not None:
            raise StorageError(f"{self.path} is offline: {self.failure}")

    def _mark_segments_flushed(self) -> None:
        self._has_flushed_segments = True

    def _place(self, partition: TopicPartition, folder: PurePath, files: OpenFiles) -> LogLocation:
        return LogLocation(
            disk=self._tools.disk,
            files=files,
            removals=self._removals.files,
            folder=folder,
            partition=partition,
            rng=self._tools.rng,
        )

    def _all_logs(self) -> Iterator[UnifiedLog]:
        return itertools.chain(self._logs.values(), self.futures.opened())

    def _make(
        self, partition: TopicPartition, folder: PurePath, topic_id: TopicId, now_ms: int
    ) -> UnifiedLog:
        place = self._place(partition, folder, self._tools.files)
        self._tools.disk.make_directory(folder)
        partition_metadata_file.write(self._tools.disk, folder, topic_id)
        settings = self._tools.settings_for(partition.topic)
        return self._log_of(new_log(place, settings, now_ms=now_ms))

    def _open_log(self, partition: TopicPartition, folder: PurePath, now_ms: int) -> UnifiedLog:
        log = self._logs[partition] = self._load(partition, folder, now_ms)
        known = self._checkpoints
        if log.recovery_point < known.recovery_points.offsets.get(partition, 0):
            # The log is shorter than its recovery point. What is appended next was never flushed,
            # and the next start must not trust it.
            self.save_recovery_points()
        if log.first_dirty_offset != known.cleaner_offsets.offsets.get(partition):
            # Nor may it attribute a gap in what is appended next to compaction.
            self.save_cleaner_offsets()
        return log

    def _load(self, partition: TopicPartition, folder: PurePath, now_ms: int) -> UnifiedLog:
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            loaded = self._load_job(partition, folder, now_ms)()
        if loaded.files is not self._tools.files:
            loaded.files.merge_into(self._tools.files)
        if not isinstance(loaded.result, LoadedLog):
            raise loaded.result
        log = self._log_of(loaded.result.parts)
        log.raise_high_watermark(self._checkpoints.high_watermarks.offsets.get(partition, 0))
        self.reports[partition] = loaded.result.report
        _log_repairs(folder, log, loaded.result.report)
        return log

    def _load_job(
        self,
        partition: TopicPartition,
        folder: PurePath,
        now_ms: int,
        *,
        files: OpenFiles | None = None,
    ) -> Callable[[], _Loaded]:
        """Return the part of opening a log that may run on another thread."""
        known = self._checkpoints
        remembered = CheckpointedState(
            was_clean=self._was_clean,
            recovery_point=known.recovery_points.offsets.get(partition, 0),
            log_start_offset=known.log_starts.offsets.get(partition, 0),
            first_dirty_offset=known.cleaner_offsets.offsets.get(partition),
            is_foreign=known.lacks_recovery_points,
        )
        settings = self._tools.settings_for(partition.topic)
        place = self._place(partition, folder, self._tools.files if files is None else files)

        def load() -> _Loaded:
            try:
                loaded = load_log(place, settings, remembered, now_ms=now_ms)
            except (BatchError, CorruptFile) as error:
                return _Loaded(error, place.files)
            return _Loaded(loaded, place.files)

        return load

    def _log_of(self, parts: LogParts) -> UnifiedLog:
        return UnifiedLog(parts, executor=self._tools.executor, events=self._events)

    def _check_identity(self) -> None:
        """Reject the directory of another broker; write meta.properties to a new one."""
        tools = self._tools
        self.directory_id = meta_properties.load_or_create(
            tools.disk,
            self.path,
            node_id=tools.node_id,
            cluster_id=tools.cluster_id,
            new_id=lambda: str(TopicId(tools.rng.bytes(UNIQUE_BYTES))),
        )

    def _begin_recovery(self, now_ms: int) -> None:
        if self._unopened:
            _log.info(
                "Recovering logs after an unclean shutdown: directory=%s partitions=%d",
                self.path,
                len(self._unopened),
            )
        loads = [
            self._recovery_job(partition, folder, now_ms)
            for partition, folder in self._unopened.items()
        ]
        self._loads = self._tools.recovery.begin(loads)

    def _finish_recovery(self, now_ms: int) -> None:
        """Open all logs; unopenable ones go to `unreadable_logs`, the others serve."""
        assert self._loads is not None
        for partition in list(self._unopened):
            self._loaded = self._loads.take()
            with suppress(UnreadableLog):
                log = self.log(partition, now_ms=now_ms)
                if log.recovery_point < log.end_offset:
                    self._unflushed.append(log)
        self.stop_recovery()

    def _recovery_job(
        self, partition: TopicPartition, folder: PurePath, now_ms: int
    ) -> Callable[[], _Loaded | None]:
        if not self._tools.recovery.is_concurrent:
            # It is loaded when it is opened.
            return lambda: None
        files = OpenFiles(self._tools.disk, _FILES_OF_A_LOAD)
        load = self._load_job(partition, folder, now_ms, files=files)

        def load_alone() -> _Loaded | None:
            try:
                loaded = load()
            except TooManyOpenFiles:
                # The broker's own cache can close others.
                return None
            finally:
                files.close_unheld()
            return loaded

        return load_alone

    def _find(self, name: str, now_ms: int) -> None:
        folder, path = parse_directory_name(name), self.path / name
        if folder is None or self._tools.disk.status(path) is not None:
            return
        if folder.partition.topic == METADATA_TOPIC:
            return
        match folder.kind:
            case DirectoryKind.LIVE:
                self._unopened[folder.partition] = path
            case DirectoryKind.DELETED:
                self._removals.trees.add([path], now_ms=now_ms, delay_ms=0)
            case DirectoryKind.FUTURE:
                self.futures.find(folder.partition, path, now_ms)
            case DirectoryKind.STRAY:
                # Left for an operator to review.
                return


def _log_repairs(folder: PurePath, log: UnifiedLog, report: LoadReport) -> None:
    """Log what was lost or repaired while a log was loaded.

    Reading unflushed segments after a crash is no damage, nor is it worth a line per partition.
    """
    if report.reasons or report.cut_bytes or report.dropped_segments:
        _log.warning(
            "Truncated or repaired damaged log: directory=%s end_offset=%d cut_bytes=%d "
            "dropped_segments=%d rebuilt_indexes=%d reason=%s",
            folder,
            log.end_offset,
            report.cut_bytes,
            report.dropped_segments,
            report.rebuilt_indexes,
            "; ".join(report.reasons),
        )
    elif report.rebuilt_indexes:
        _log.warning(
            "Rebuilt missing or corrupt indexes: directory=%s rebuilt_indexes=%d",
            folder,
            report.rebuilt_indexes,
        )
