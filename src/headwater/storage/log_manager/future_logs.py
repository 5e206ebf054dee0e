"""Future logs of one log directory: copies of logs that are moving here (KIP-113).

    orders-3.<32 hex digits>-future      becomes orders-3 when it has caught up

A future log is an ordinary log that only its move writes to and that is not read.

Note: in the directory's checkpoints a future log uses its partition's own name. That name is free,
because the current log is in another directory; Kafka does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from headwater.common.exceptions import BatchError, CorruptFile, StorageError, UnreadableLog
from headwater.common.ids import TopicId, TopicPartition
from headwater.common.ports import Random
from headwater.storage.io.disk import Disk
from headwater.storage.log import partition_metadata_file
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.log_manager.partition_directory_names import (
    UNIQUE_BYTES,
    deleted_name,
    future_name,
    live_name,
)

LoadLog = Callable[[TopicPartition, PurePath, int], UnifiedLog]
MakeLog = Callable[[TopicPartition, PurePath, TopicId, int], UnifiedLog]
Forget = Callable[[TopicPartition], None]
RemoveLater = Callable[[PurePath, TopicPartition, int], None]


class FutureLogs:
    """Future logs of one directory, by partition. The caller handles failures."""

    def __init__(
        self,
        disk: Disk,
        path: PurePath,
        rng: Random,
        *,
        load: LoadLog,
        make: MakeLog,
        forget: Forget,
        remove_later: RemoveLater,
    ) -> None:
        self._disk = disk
        self._path = path
        self._rng = rng
        self._load = load
        self._make = make
        self._forget = forget
        self._remove_later = remove_later
        self._folders: dict[TopicPartition, PurePath] = {}
        self._logs: dict[TopicPartition, UnifiedLog] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._folders

    def partitions(self) -> list[TopicPartition]:
        return list(self._folders)

    def opened(self) -> Iterator[UnifiedLog]:
        return iter(list(self._logs.values()))

    def get(self, partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(partition)

    def folder(self, partition: TopicPartition) -> PurePath:
        return self._folders[partition]

    def find(self, partition: TopicPartition, folder: PurePath, now_ms: int) -> None:
        """Register a directory found at start; remove a second one of the partition."""
        if partition in self._folders:
            self._rename_deleted(partition, folder, now_ms)
        else:
            self._folders[partition] = folder

    def topic_id(self, partition: TopicPartition) -> TopicId | None:
        """Return the topic id; None if a power cut lost it (the log was never flushed)."""
        try:
            return partition_metadata_file.load(self._disk, self._folders[partition])
        except CorruptFile:
            return None

    def create(self, partition: TopicPartition, topic_id: TopicId, *, now_ms: int) -> UnifiedLog:
        assert partition not in self._folders, f"{partition} has a future log already"
        folder = self._path / future_name(partition, self._rng.bytes(UNIQUE_BYTES))
        log = self._make(partition, folder, topic_id, now_ms)
        self._folders[partition], self._logs[partition] = folder, log
        return log

    def open(self, partition: TopicPartition, *, now_ms: int) -> UnifiedLog:
        """Open a future log that was found at start, or raise `UnreadableLog`."""
        folder = self._folders[partition]
        try:
            log = self._logs[partition] = self._load(partition, folder, now_ms)
        except (BatchError, CorruptFile) as error:
            raise UnreadableLog(f"cannot open {folder}: {error}") from error
        return log

    def drop(self, partition: TopicPartition, *, now_ms: int) -> None:
        """Remove a future log; its directory is deleted later."""
        folder = self._folders.pop(partition)
        log = self._logs.pop(partition, None)
        if log is not None:
            log.discard()
        # On disk first: the next log of this name must not inherit its offsets.
        self._forget(partition)
        self._rename_deleted(partition, folder, now_ms)
        self._disk.sync_directory(self._path)

    def promote(self, partition: TopicPartition) -> PurePath:
        """Rename the directory to the live name, durably; return the new path."""
        live = self._path / live_name(partition)
        self._disk.rename(self._folders[partition], live)
        self._disk.sync_directory(self._path)
        del self._folders[partition]
        self._logs.pop(partition, None)
        return live

    def fence(self, error: StorageError) -> None:
        for log in self._logs.values():
            log.fence(error)

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    def _rename_deleted(self, partition: TopicPartition, folder: PurePath, now_ms: int) -> None:
        target = self._path / deleted_name(partition, self._rng.bytes(UNIQUE_BYTES))
        self._disk.rename(folder, target)
        self._remove_later(target, partition, now_ms)
