"""All logs of a broker that are on their way from one log directory to another (KIP-113).

A few move at a time, the others wait for their turn. Moves outlive the process: their `-future`
folders are found by the next start, which goes on with them.

What a reader would get wrong is the moment of the swap, because two directories are two disks.

1. The copy is whole, durable, and says how often its log has moved: once more than the original.
2. It gets the partition's name. From here on the log is there, because of the higher count.
3. The original's folder becomes a `-delete`.

A crash between 2 and 3 leaves two folders with the partition's name, and the count tells which is
the log (`LogDirectories.open`). If step 2 fails, nobody knows whether it will have happened after
the next start. So the original, which goes on, gets a count above that of the copy, and where not
even this can be written, it does not go on either.
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
    """Where logs live: `headwater.storage.log_manager.log_manager`."""

    directories: list[LogDirectory]

    def __contains__(self, partition: TopicPartition) -> bool: ...

    def directory_of(self, partition: TopicPartition) -> LogDirectory: ...

    def log(self, partition: TopicPartition, *, now_ms: int) -> UnifiedLog | None: ...

    def moved(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """A log has another home."""


class LogDirMoves:
    """Begins, cancels, goes on with and ends moves."""

    def __init__(
        self, homes: LogLocations, executor: Executor, settings: StorageSettings, sizes: MoveSizes
    ) -> None:
        self._homes = homes
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._throttle = ByteRateLimit()
        self._now_ms = 0
        self._is_stopped = False
        # What happened, for the log of the broker; whoever writes that empties it.
        self.news: list[str] = []
        self._tools = MoveTools(
            executor=executor,
            sizes=sizes,
            throttle=lambda: self._throttle,
            now_ms=lambda: self._now_ms,
            swap=self._swap,
            give_up=self._give_up,
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
        """Move a log. Where it is on its way elsewhere, that ends; where it lies, it stays.

        Raises `StorageError` when either directory has failed, `UnreadableLog` for a damaged log.
        """
        move = self._moves.get(partition)
        if move is not None and move.target is target:
            return
        self.cancel(partition, now_ms=now_ms)
        source = self._homes.directory_of(partition)
        if source is target:
            return
        original = self._homes.log(partition, now_ms=now_ms)
        assert original is not None, "it has a directory"
        try:
            if partition in target.futures:
                target.drop_future(partition, now_ms=now_ms)
            copy = target.create_future(partition, topic_id, now_ms=now_ms)
        except StorageError as error:
            target.fence(error)
            raise
        self._add(original, copy, source, target)

    def cancel(self, partition: TopicPartition, *, now_ms: int) -> None:
        """Stay where it is, and drop what was copied; fine if it was not moving."""
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
        """Before anything is appended: go on with the moves of an earlier life."""
        self._now_ms = now_ms
        for target in self._homes.directories:
            for partition in target.futures.partitions() if target.failure is None else ():
                if partition in self._homes:
                    with suppress(StorageError, UnreadableLog, TooManyOpenFiles):
                        original = self._homes.log(partition, now_ms=now_ms)
                        assert original is not None, "it has a directory"
                        self._resume(original, target, now_ms)

    def tick(self, now_ms: int) -> None:
        """Let some go on."""
        if now_ms < self._now_ms:
            # The clock was set back, and nobody waits for it to catch up.
            self._throttle = ByteRateLimit(self._throttle.limit)
        self._now_ms = now_ms
        for move in [each for each in self._moves.values() if each.is_over]:
            self._end(move)
        # As many as there are disks, as in Kafka.
        for move in list(self._moves.values())[: len(self._homes.directories)]:
            if not self._is_stopped:
                move.go_on()

    def stop(self) -> None:
        """Begin no further step: the logs are about to be closed."""
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
        """A copy from an earlier life, as far as it is one; None if it has to go."""
        partition = original.partition
        is_second = source is target or partition in self._moves
        # Without an id it is of a log that has nothing durable yet, and no loss.
        if is_second or wanted is None or target.futures.topic_id(partition) != wanted:
            target.drop_future(partition, now_ms=now_ms)
            return None
        try:
            copy = target.open_future(partition, now_ms=now_ms)
        except UnreadableLog:
            target.drop_future(partition, now_ms=now_ms)
            return target.create_future(partition, wanted, now_ms=now_ms)
        _make_a_beginning(original, copy, now_ms)
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
        self.news.append(f"{partition} moves from {source.path} to {target.path}")

    def _end(self, move: LogDirMove) -> None:
        del self._moves[move.partition]
        move.original.future = None

    def _give_up(self, move: LogDirMove, error: BatchError) -> None:
        self.cancel(move.partition, now_ms=self._now_ms)
        self.news.append(f"{move.partition} stays in {move.source.path}: {error}")

    def _swap(self, move: LogDirMove) -> None:
        """See the module."""
        partition, source, target = move.partition, move.source, move.target
        try:
            count = source.move_count(partition) + 1
        except StorageError as error:
            source.fence(error)
            raise
        try:
            target.take_in(move.original, count=count, now_ms=self._now_ms)
        except StorageError as error:
            target.fence(error)
            self._outrank(source, partition, count + 1)
            raise
        del self._moves[partition]
        self._homes.moved(partition, target)
        self.news.append(f"{partition} has moved from {source.path} to {target.path}")
        try:
            source.leave_behind(partition, now_ms=self._now_ms)
        except StorageError as error:
            source.fence(error)

    def _outrank(self, source: LogDirectory, partition: TopicPartition, count: int) -> None:
        try:
            source.raise_move_count(partition, count)
        except StorageError as error:
            source.fence(error)


def _make_a_beginning(original: UnifiedLog, copy: UnifiedLog, now_ms: int) -> None:
    """Cut a copy that was found down to what it still shares with its original."""
    end = kept_end(
        _extent(original, start=original.log_start_offset),
        _extent(copy, start=copy.body.segments.first.base_offset),
    )
    if end is not None:
        copy.truncate_to(end, now_ms=now_ms)
    if end is None or not _ends_alike(original, copy):
        copy.start_over(original.log_start_offset, now_ms=now_ms)


def _extent(log: UnifiedLog, *, start: int) -> LogExtent:
    return LogExtent(
        start=start,
        end=log.end_offset,
        epochs=log.epochs,
        is_compacted=log.settings.is_compacted or log.first_dirty_offset is not None,
    )


def _ends_alike(original: UnifiedLog, copy: UnifiedLog) -> bool:
    """Whether the last batch of a copy is one of the original.

    Epochs tell most differences, but a broker that is alone may lose its last records in a power
    cut and write others, in the same epoch, while the disk with the copy is away.
    """
    last_offset = copy.end_offset - 1
    if copy.end_offset == copy.body.segments.first.base_offset:
        return True
    try:
        ours, theirs = copy.body.batch_at(last_offset), original.body.batch_at(last_offset)
    except BatchError:
        return False
    return ours is not None and ours == theirs
