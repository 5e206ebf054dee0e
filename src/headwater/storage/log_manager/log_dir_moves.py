"""Moves of logs between the log directories of a broker (KIP-113).

A few logs move at a time, the others wait. Moves survive a restart: the next start finds their
`-future` directories and continues.

Note: two directories are two disks, so the swap cannot be one rename. Its steps are:

1. The copy is complete, durable, and has a move count one above the original's.
2. It is renamed to the partition's name. From here on it is the log, because of the higher count.
3. The original's directory becomes a `-delete`.

A crash between 2 and 3 leaves two directories with the partition's name, and the count tells which
is the log (`LogManager.open`). If step 2 fails, it is unknown whether the rename will have happened
after the next start. So the original, which stays in use, gets a count above that of the copy; if
even this cannot be written, the original goes offline too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from headwater.common.byte_rate_limit import ByteRateLimit
from headwater.common.exceptions import BatchError, StorageError, TooManyOpenFiles, UnreadableLog
from headwater.common.ids import TopicId, TopicPartition
from headwater.common.settings.storage_settings import StorageSettings
from headwater.storage.io.executor import Executor
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.log_manager.log_dir_move import LogDirMove, MoveTools
from headwater.storage.log_manager.log_dir_move_steps import LogExtent, MoveSizes, kept_end
from headwater.storage.log_manager.log_directory import LogDirectory


class LogLocations(Protocol):
    """Directory of each log; implemented by `LogManager`."""

    directories: list[LogDirectory]

    def __contains__(self, partition: TopicPartition) -> bool: ...

    def directory_of(self, partition: TopicPartition) -> LogDirectory: ...

    def log(self, partition: TopicPartition, *, now_ms: int) -> UnifiedLog | None: ...

    def moved(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Record that a log is in another directory now."""


class LogDirMoves:
    """Starts, cancels, advances and ends moves."""

    def __init__(
        self, homes: LogLocations, executor: Executor, settings: StorageSettings, sizes: MoveSizes
    ) -> None:
        self._homes = homes
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._throttle = ByteRateLimit()
        self._now_ms = 0
        self._is_stopped = False
        # Messages for the broker's log; the reader clears the list.
        self.changed_partitions: list[str] = []
        self._tools = MoveTools(
            executor=executor,
            sizes=sizes,
            throttle=lambda: self._throttle,
            now_ms=lambda: self._now_ms,
            swap=self._swap,
            on_failure=self._cancel_failed,
        )
        self.configure(settings)

    def __len__(self) -> int:
        return len(self._moves)

    def configure(self, settings: StorageSettings) -> None:
        self._throttle.limit = settings.replica_alter_log_dirs_io_max_bytes_per_second

    def find(self, partition: TopicPartition) -> LogDirMove | None:
        return self._moves.get(partition)

    def into(self, directory: LogDirectory) -> list[LogDirMove]:
        return [each for each in self._moves.values() if each.target is directory]

    def begin(
        self,
        partition: TopicPartition,
        target: LogDirectory,
        topic_id: TopicId,
        *,
        now_ms: int,
    ) -> None:
        """Start moving a log; replaces another move, no effect if already there.

        Raises `StorageError` if either directory is offline, `UnreadableLog` if the log is corrupt.
        """
        move = self._moves.get(partition)
        if move is not None and move.target is target:
            return
        self.cancel(partition, now_ms=now_ms)
        source = self._homes.directory_of(partition)
        if source is target:
            return
        original = self._homes.log(partition, now_ms=now_ms)
        assert original is not None, "a partition with a directory has a log"
        try:
            if partition in target.futures:
                target.drop_future(partition, now_ms=now_ms)
            copy = target.create_future(partition, topic_id, now_ms=now_ms)
        except StorageError as error:
            target.fence(error)
            raise
        self._add(original, copy, source, target)

    def cancel(self, partition: TopicPartition, *, now_ms: int) -> None:
        """Cancel a move and delete the copy; no error if the log is not moving."""
        move = self._moves.pop(partition, None)
        if move is None:
            return
        move.original.future = None
        if move.target.failure is None:
            try:
                move.target.drop_future(partition, now_ms=now_ms)
            except StorageError as error:
                move.target.fence(error)

    def resume(self, now_ms: int) -> None:
        """Continue the moves of the previous run. Call this before anything is appended."""
        self._now_ms = now_ms
        for target in self._homes.directories:
            for partition in target.futures.partitions() if target.failure is None else ():
                if partition in self._homes:
                    with suppress(StorageError, UnreadableLog, TooManyOpenFiles):
                        original = self._homes.log(partition, now_ms=now_ms)
                        assert original is not None, "a partition with a directory has a log"
                        self._resume(original, target, now_ms)

    def tick(self, now_ms: int) -> None:
        """Advance some moves."""
        if now_ms < self._now_ms:
            # The clock was set back; do not wait for it to catch up.
            self._throttle = ByteRateLimit(self._throttle.limit)
        self._now_ms = now_ms
        for move in [each for each in self._moves.values() if each.is_over]:
            self._end(move)
        # One per log directory, as in Kafka.
        for move in list(self._moves.values())[: len(self._homes.directories)]:
            if not self._is_stopped:
                move.run()

    def stop(self) -> None:
        """Start no further step: the logs are about to be closed."""
        self._is_stopped = True
        for move in self._moves.values():
            move.original.future = None
        self._moves.clear()

    def _resume(self, original: UnifiedLog, target: LogDirectory, now_ms: int) -> None:
        source = self._homes.directory_of(original.partition)
        wanted = source.topic_id(original.partition)
        try:
            copy = self._found_copy(original, source, target, wanted, now_ms)
        except StorageError as error:
            target.fence(error)
            raise
        if copy is not None:
            self._add(original, copy, source, target)

    def _found_copy(
        self,
        original: UnifiedLog,
        source: LogDirectory,
        target: LogDirectory,
        wanted: TopicId | None,
        now_ms: int,
    ) -> UnifiedLog | None:
        """Open a copy from before the restart; None if it must be deleted."""
        partition = original.partition
        is_second = source is target or partition in self._moves
        # Without a topic id the log has nothing durable yet, so nothing is lost.
        if is_second or wanted is None or target.futures.topic_id(partition) != wanted:
            target.drop_future(partition, now_ms=now_ms)
            return None
        try:
            copy = target.open_future(partition, now_ms=now_ms)
        except UnreadableLog:
            target.drop_future(partition, now_ms=now_ms)
            return target.create_future(partition, wanted, now_ms=now_ms)
        _truncate_to_common_prefix(original, copy, now_ms)
        return copy

    def _add(
        self,
        original: UnifiedLog,
        copy: UnifiedLog,
        source: LogDirectory,
        target: LogDirectory,
    ) -> None:
        partition = original.partition
        self._moves[partition] = LogDirMove(
            original, copy, source=source, target=target, tools=self._tools
        )
        self.changed_partitions.append(
            f"Moving log: partition={partition} from={source.path} to={target.path}"
        )

    def _end(self, move: LogDirMove) -> None:
        del self._moves[move.partition]
        move.original.future = None

    def _cancel_failed(self, move: LogDirMove, error: BatchError) -> None:
        self.cancel(move.partition, now_ms=self._now_ms)
        self.changed_partitions.append(
            f"Move cancelled, log stays: partition={move.partition} "
            f"directory={move.source.path} error={error}"
        )

    def _swap(self, move: LogDirMove) -> None:
        """Replace the original with the copy in the steps described above."""
        partition, source, target = move.partition, move.source, move.target
        try:
            count = source.move_count(partition) + 1
        except StorageError as error:
            source.fence(error)
            raise
        try:
            target.replace_with_future(move.original, count=count, now_ms=self._now_ms)
        except StorageError as error:
            target.fence(error)
            self._outrank(source, partition, count + 1)
            raise
        del self._moves[partition]
        self._homes.moved(partition, target)
        self.changed_partitions.append(
            f"Moved log: partition={partition} from={source.path} to={target.path}"
        )
        try:
            source.remove_moved(partition, now_ms=self._now_ms)
        except StorageError as error:
            source.fence(error)

    def _outrank(self, source: LogDirectory, partition: TopicPartition, count: int) -> None:
        try:
            source.raise_move_count(partition, count)
        except StorageError as error:
            source.fence(error)


def _truncate_to_common_prefix(original: UnifiedLog, copy: UnifiedLog, now_ms: int) -> None:
    """Truncate a copy found at start to what it still shares with its original."""
    end = kept_end(
        _extent(original, start=original.log_start_offset),
        _extent(copy, start=copy.local_log.segments.first.base_offset),
    )
    if end is not None:
        copy.truncate_to(end, now_ms=now_ms)
    if end is None or not _has_same_last_batch(original, copy):
        copy.start_over(original.log_start_offset, now_ms=now_ms)


def _extent(log: UnifiedLog, *, start: int) -> LogExtent:
    return LogExtent(
        start=start,
        end=log.end_offset,
        epochs=log.epochs,
        is_compacted=log.settings.is_compacted or log.first_dirty_offset is not None,
    )


def _has_same_last_batch(original: UnifiedLog, copy: UnifiedLog) -> bool:
    """Return whether the last batch of a copy is also in the original.

    Leader epochs reveal most differences, but a single broker may lose its last records in a power
    cut and write others in the same epoch while the disk with the copy is offline.
    """
    last_offset = copy.end_offset - 1
    if copy.end_offset == copy.local_log.segments.first.base_offset:
        return True
    try:
        ours, theirs = (
            copy.local_log.batch_at(last_offset),
            original.local_log.batch_at(last_offset),
        )
    except BatchError:
        return False
    return ours is not None and ours == theirs
