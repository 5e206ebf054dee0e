"""LogManager: all logs of a broker in its log directories.

Background work runs in small steps: the owner of the event loop calls `tick` a few times a second
with the time, and each call does a bounded part of what is due. If one directory fails, the others
keep serving.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Generic, TypeVar

from headwater.common.elapsed import has_passed
from headwater.common.exceptions import (
    BatchError,
    StorageError,
    TooManyOpenFiles,
    UnreadableLog,
    WrongLogDirectory,
)
from headwater.common.ids import TopicId, TopicPartition
from headwater.common.settings.storage_settings import StorageSettings
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.log_manager.log_dir_move_steps import MoveSizes
from headwater.storage.log_manager.log_dir_moves import LogDirMoves
from headwater.storage.log_manager.log_directory import DirectoryTools, LogDirectory

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Logs or directories visited per tick and task: enough to complete a round in time, few enough not
# to delay requests.
_MEMBERS_PER_TICK = 100
_OPENED_PER_TICK = 20
_MAX_PREFERRED_LOG_DIRS = 10_000


class LogManager:
    """Finds, creates, deletes and maintains logs."""

    def __init__(
        self,
        paths: Sequence[PurePath],
        tools: DirectoryTools,
        settings: StorageSettings,
        *,
        members_per_tick: int = _MEMBERS_PER_TICK,
        move_sizes: MoveSizes | None = None,
    ) -> None:
        assert paths, "a broker needs at least one log directory"
        self.directories = [LogDirectory(path, tools) for path in paths]
        self._settings = settings
        self._recovers_together = tools.recovery.is_concurrent
        self._members_per_tick = members_per_tick
        # Logs in which background work found corruption; reads fail there too.
        self.corrupt: dict[TopicPartition, str] = {}
        self._home: dict[TopicPartition, LogDirectory] = {}
        # Partitions found in several directories, because a disk came back after another one had
        # served in its place; until an operator decides.
        self._doubles: dict[TopicPartition, list[LogDirectory]] = {}
        self._rounds: list[_Round[UnifiedLog] | _Round[LogDirectory]] = []
        self.moves = LogDirMoves(self, tools.executor, settings, move_sizes or MoveSizes())
        # Target directories of logs that do not exist yet.
        self._preferred_log_dirs: dict[TopicPartition, LogDirectory] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._home

    def open(self, now_ms: int) -> None:
        """Open every directory. One that fails goes offline; if all fail, raise.

        The directory of another broker is a configuration error and is rejected at once.
        """
        for directory in self._open_directories(now_ms):
            for partition in directory.partitions():
                if self._home.setdefault(partition, directory) is not directory:
                    self._doubles.setdefault(partition, []).append(directory)
        self._serving_or_fail()
        for partition in list(self._doubles):
            self._remove_obsolete_copies(partition, now_ms)
        self.moves.resume(now_ms)
        self._rounds = self._schedule(now_ms)

    def _open_directories(self, now_ms: int) -> list[LogDirectory]:
        """Open one directory after the other, or recover the logs of all at once."""
        if not self._recovers_together:
            return [each for each in self.directories if _is_done(each, partial(each.open, now_ms))]
        try:
            begun = [
                each
                for each in self.directories
                if _is_done(each, partial(each.begin_open, now_ms))
            ]
            return [each for each in begun if _is_done(each, partial(each.finish_open, now_ms))]
        finally:
            for directory in self.directories:
                directory.stop_recovery()

    def configure(self, settings: StorageSettings) -> None:
        """Apply new settings, except the intervals, which are fixed at start."""
        self._settings = settings
        self.moves.configure(settings)

    def partitions(self) -> list[TopicPartition]:
        return list(self._home)

    def directory_of(self, partition: TopicPartition) -> LogDirectory:
        return self._home[partition]

    def candidates(self, partition: TopicPartition) -> list[LogDirectory]:
        """Return all directories with this partition, usually one; the first serves.

        There are several if a topic was re-created on another disk while the disk with the old one
        was offline. Kafka refuses to start then and leaves it to the operator.
        """
        return [self._home[partition], *self._doubles.get(partition, ())]

    def topic_ids(self, partition: TopicPartition) -> dict[LogDirectory, TopicId | None]:
        """Return the topic id of each readable folder of a partition, None if it has none.

        A directory that cannot be read goes offline and is left out.
        """
        found: dict[LogDirectory, TopicId | None] = {}
        for each in self.candidates(partition):
            with suppress(StorageError):
                if each.failure is None:
                    found[each] = _guarded(each, partial(each.topic_id, partition))
        return found

    def serving(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.failure is None]

    def clean_broker_epoch(self) -> int | None:
        """Return the last broker epoch, if all directories prove a clean shutdown."""
        epochs = {each.clean_broker_epoch for each in self.directories}
        is_whole = len(self.serving()) == len(self.directories)
        return epochs.pop() if len(epochs) == 1 and is_whole else None

    def log(self, partition: TopicPartition, *, now_ms: int) -> UnifiedLog | None:
        """Return the log of a partition, or None if this broker has none.

        Raises `StorageError` if its directory is offline, `UnreadableLog` if it is corrupt.
        """
        directory = self._home.get(partition)
        if directory is None:
            return None
        return _guarded(directory, partial(directory.log, partition, now_ms=now_ms))

    def create(self, partition: TopicPartition, topic_id: TopicId, *, now_ms: int) -> UnifiedLog:
        """Create a log in its target directory, or in the one with the fewest partitions.

        Note: if the directory fails, the log's folder may exist already. The partition then stays
        in that directory, offline: a log in another directory would be a second one when the disk
        comes back.
        """
        serving = self._serving_or_fail()
        wanted = self._preferred_log_dirs.pop(partition, None)
        directory = wanted if wanted in serving else min(serving, key=len)
        try:
            log = _guarded(directory, partial(directory.create, partition, topic_id, now_ms=now_ms))
        except StorageError:
            self._home[partition] = directory
            raise
        self._home[partition] = directory
        return log

    def delete(self, partition: TopicPartition, *, now_ms: int) -> None:
        self.delete_all([partition], now_ms=now_ms)

    def delete_all(self, partitions: Iterable[TopicPartition], *, now_ms: int) -> None:
        """Delete many partitions with one sync per directory.

        Partitions in an offline directory stay, and its failure is raised after all others are
        deleted.
        """
        deleted: dict[LogDirectory, list[TopicPartition]] = {}
        for partition in partitions:
            self.moves.cancel(partition, now_ms=now_ms)
            deleted.setdefault(self._home[partition], []).append(partition)
        failure: StorageError | None = None
        for directory, gone in deleted.items():
            try:
                _guarded(directory, partial(directory.delete_all, gone, now_ms=now_ms))
            except StorageError as error:
                failure = failure or error
                continue
            for partition in gone:
                del self._home[partition]
                self.corrupt.pop(partition, None)
        if failure is not None:
            raise failure

    def set_aside(self, partition: TopicPartition, directory: LogDirectory, *, now_ms: int) -> None:
        """Rename a stray partition's directory instead of deleting it."""
        if directory is self._home[partition]:
            self.moves.cancel(partition, now_ms=now_ms)
        left = [each for each in self.candidates(partition) if each is not directory]
        self._doubles.pop(partition, None)
        del self._home[partition]
        if left:
            self._home[partition] = left[0]
        if left[1:]:
            self._doubles[partition] = left[1:]
        _guarded(directory, partial(directory.set_aside, [partition]))

    def opened(self) -> Iterator[UnifiedLog]:
        """Yield the open logs; unopened ones need no maintenance."""
        for directory in self.serving():
            yield from directory.opened()

    def tick(self, now_ms: int) -> None:
        """Do a bounded part of the background work that is due."""
        for directory in self.serving():
            _guarded_quietly(
                directory, partial(directory.open_some, _OPENED_PER_TICK, now_ms=now_ms)
            )
            _guarded_quietly(directory, directory.flush_recovered)
            directory.remove_due(now_ms)
            directory.save_flushed_segments(now_ms)
        for each in self._rounds:
            each.run(now_ms)
        self.moves.tick(now_ms)

    def close(self, *, broker_epoch: int = -1) -> None:
        """Shut down cleanly, after all jobs; a directory that fails goes offline."""
        self.moves.stop()
        for directory in self.serving():
            _guarded_quietly(directory, partial(directory.close, broker_epoch=broker_epoch))

    # Moves between log directories.

    def set_preferred_directory(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Remember the target directory of a partition that is not here yet (KIP-113).

        Kept in memory only, as in Kafka, and bounded, because AlterReplicaLogDirs may name
        partitions that are never assigned to this broker.
        """
        self._preferred_log_dirs.pop(partition, None)
        self._preferred_log_dirs[partition] = directory
        if len(self._preferred_log_dirs) > _MAX_PREFERRED_LOG_DIRS:
            del self._preferred_log_dirs[next(iter(self._preferred_log_dirs))]

    def moved(self, partition: TopicPartition, directory: LogDirectory) -> None:
        self._home[partition] = directory

    def adopt_futures(
        self, topic_id_of: Callable[[TopicPartition], TopicId | None], *, now_ms: int
    ) -> None:
        """Once the metadata is known, decide about future logs without a current log.

        The copy of a partition that is not assigned to this broker is deleted. If the partition is
        assigned and no disk has anything else of it, a power cut took the original and the copy is
        promoted. While a disk is offline, nothing is decided.
        """
        is_whole = len(self.serving()) == len(self.directories)
        for directory in self.serving():
            for partition in directory.futures.partitions():
                wanted = topic_id_of(partition)
                if wanted is None or directory.futures.topic_id(partition) != wanted:
                    self.moves.cancel(partition, now_ms=now_ms)
                    if partition in directory.futures:
                        _guarded_quietly(
                            directory, partial(directory.drop_future, partition, now_ms=now_ms)
                        )
                elif is_whole and partition not in self._home:
                    _guarded_quietly(directory, partial(directory.promote_future, partition))
                    if partition in directory:
                        self._home[partition] = directory

    def _remove_obsolete_copies(self, partition: TopicPartition, now_ms: int) -> None:
        """Keep the directory with the higher move count (see `log_dir_moves`)."""
        candidates = self.candidates(partition)
        counts: dict[LogDirectory, int] = {}
        for each in candidates:
            with suppress(StorageError):
                counts[each] = _guarded(each, partial(each.move_count, partition))
        newest = max(counts, key=lambda each: counts[each], default=candidates[0])
        topic_id = newest.topic_id(partition)
        left = [
            each
            for each in counts
            if counts[each] < counts[newest] and each.topic_id(partition) == topic_id
        ]
        if topic_id is None or not left:
            return
        others = [each for each in candidates if each is not newest and each not in left]
        self._home[partition] = newest
        del self._doubles[partition]
        if others:
            self._doubles[partition] = others
        end_offset = _end_offset(newest, partition, now_ms)
        for each in left:
            left_end = _end_offset(each, partition, now_ms)
            # A log that continued while the other disk was offline is left for the operator to
            # decide.
            if end_offset is not None and left_end is not None and left_end <= end_offset:
                remove = partial(each.delete_all, [partition], now_ms=now_ms)
            else:
                remove = partial(each.set_aside, [partition])
            _guarded_quietly(each, remove)

    def _serving_or_fail(self) -> list[LogDirectory]:
        serving = self.serving()
        if not serving:
            reasons = "; ".join(f"{each.path}: {each.failure}" for each in self.directories)
            raise StorageError(f"all log directories have failed ({reasons})")
        return serving

    def _schedule(self, now_ms: int) -> list[_Round[UnifiedLog] | _Round[LogDirectory]]:
        settings = self._settings

        def for_logs(
            interval_ms: int, visit: Callable[[UnifiedLog, int], object]
        ) -> _Round[UnifiedLog]:
            return _Round(
                interval_ms,
                now_ms,
                self.opened,
                partial(self._visit_log, visit),
                members_per_tick=self._members_per_tick,
            )

        def for_directories(
            interval_ms: int, save: Callable[[LogDirectory], None]
        ) -> _Round[LogDirectory]:
            return _Round(
                interval_ms,
                now_ms,
                self.serving,
                lambda each, _: _visit_directory(each, partial(save, each)),
                members_per_tick=self._members_per_tick,
            )

        return [
            for_logs(settings.log_retention_check_interval_ms, UnifiedLog.apply_retention),
            for_logs(settings.log_flush_scheduler_interval_ms, UnifiedLog.flush_if_old),
            for_logs(settings.producer_id_expiration_check_interval_ms, self._expire_producers),
            for_directories(
                settings.log_flush_offset_checkpoint_interval_ms,
                LogDirectory.save_recovery_points_later,
            ),
            for_directories(
                settings.log_flush_start_offset_checkpoint_interval_ms,
                LogDirectory.save_log_starts_later,
            ),
            for_directories(
                settings.replica_high_watermark_checkpoint_interval_ms,
                LogDirectory.save_high_watermarks_later,
            ),
        ]

    def _visit_log(
        self, visit: Callable[[UnifiedLog, int], object], log: UnifiedLog, now_ms: int
    ) -> None:
        """Visit one log; a failure does not stop the round.

        The log may have been deleted since the round began; then it raises.
        """
        try:
            visit(log, now_ms)
        except (StorageError, TooManyOpenFiles):
            # The log has already reported the failure to its directory, or the next round may
            # succeed.
            return
        except BatchError as error:
            if self.corrupt.get(log.partition) != str(error):
                self.corrupt[log.partition] = str(error)
                _log.warning("Found corrupt batch: partition=%s error=%s", log.partition, error)

    def _expire_producers(self, log: UnifiedLog, now_ms: int) -> None:
        log.producers.expire(now_ms, self._settings.producer_id_expiration_ms)


class _Round(Generic[T]):
    """Task that visits every log or directory once per interval, a few in each tick."""

    def __init__(
        self,
        interval_ms: int,
        now_ms: int,
        members: Callable[[], Iterable[T]],
        visit: Callable[[T, int], object],
        *,
        members_per_tick: int,
    ) -> None:
        self._interval_ms = interval_ms
        self._begun_ms = now_ms
        self._members = members
        self._visit = visit
        self._members_per_tick = members_per_tick
        self._waiting: deque[T] = deque()

    def run(self, now_ms: int) -> None:
        if not self._waiting and has_passed(self._begun_ms, self._interval_ms, now_ms):
            self._begun_ms = now_ms
            self._waiting.extend(self._members())
        for _ in range(min(len(self._waiting), self._members_per_tick)):
            self._visit(self._waiting.popleft(), now_ms)


def _is_done(directory: LogDirectory, step: Callable[[], None]) -> bool:
    """Do a step of opening a directory; take it offline if it fails."""
    try:
        step()
    except WrongLogDirectory:
        raise
    except StorageError as error:
        directory.fence(error)
        return False
    return True


def _guarded(directory: LogDirectory, action: Callable[[], T]) -> T:
    """Run an action; if the disk fails, take the directory offline and raise."""
    try:
        return action()
    except StorageError as error:
        directory.fence(error)
        raise


def _end_offset(directory: LogDirectory, partition: TopicPartition, now_ms: int) -> int | None:
    """Return a log's end offset, or None if it cannot be opened."""
    try:
        return _guarded(directory, partial(directory.log, partition, now_ms=now_ms)).end_offset
    except (StorageError, UnreadableLog, TooManyOpenFiles):
        return None


def _visit_directory(directory: LogDirectory, action: Callable[[], None]) -> None:
    """Skip a directory that has failed since the round began."""
    if directory.failure is None:
        _guarded_quietly(directory, action)


def _guarded_quietly(directory: LogDirectory, action: Callable[[], None]) -> None:
    """Run background work; a disk failure only takes the directory offline."""
    with suppress(StorageError):
        _guarded(directory, action)
