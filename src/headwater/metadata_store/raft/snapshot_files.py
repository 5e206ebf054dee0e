"""Snapshots as `.checkpoint` files in the directory of the metadata log.

A snapshot is written under a name that ends with `.part` and renamed once it is synced, so a file
with a snapshot's name is whole. A start deletes what a crash left half-written.
"""

from pathlib import PurePath

from headwater.raft.replicated_log import OffsetAndEpoch, SnapshotSlice
from headwater.raft.snapshots import (
    PARTIAL_SUFFIX,
    SUFFIX,
    parse_snapshot_file_name,
    snapshot_file_name,
)
from headwater.records.batch_header import Buffer
from headwater.storage.io.disk import Disk, File


class SnapshotFiles:
    """The snapshots of one replica, by id."""

    __slots__ = ("_directory", "_disk", "_ids")

    def __init__(self, disk: Disk, directory: PurePath) -> None:
        self._disk = disk
        self._directory = directory
        self._ids: list[OffsetAndEpoch] = []
        for name in disk.names(directory):
            snapshot_id = parse_snapshot_file_name(name)
            if snapshot_id is not None:
                self._ids.append(snapshot_id)
            elif name.endswith(PARTIAL_SUFFIX):
                disk.remove(directory / name)
        self._ids.sort()

    @property
    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        """Oldest first."""
        return tuple(self._ids)

    def read(
        self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotSlice | None:
        """Bytes from a position on; None if there is no such snapshot."""
        if snapshot_id not in self._ids:
            return None
        file = self._disk.open(self._path(snapshot_id))
        try:
            size = file.size()
            length = max(0, min(max_bytes, size - position))
            return SnapshotSlice(size, file.read(length, position) if length else b"")
        finally:
            file.close()

    def create(self, snapshot_id: OffsetAndEpoch) -> "FileRawSnapshotWriter | None":
        """A writer; None if a snapshot of this id exists."""
        if snapshot_id in self._ids:
            return None
        return FileRawSnapshotWriter(self, self._disk, snapshot_id)

    def delete_before(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Delete older snapshots; True if there were any."""
        older = [each for each in self._ids if each < snapshot_id]
        for each in older:
            self._disk.remove(self._path(each))
            self._ids.remove(each)
        if older:
            self._disk.sync_directory(self._directory)
        return bool(older)

    def partial_path(self, snapshot_id: OffsetAndEpoch) -> PurePath:
        stem = snapshot_file_name(snapshot_id).removesuffix(SUFFIX)
        return self._directory / (stem + PARTIAL_SUFFIX)

    def publish(self, snapshot_id: OffsetAndEpoch) -> None:
        """Give a synced file its name; durable on return."""
        self._disk.rename(self.partial_path(snapshot_id), self._path(snapshot_id))
        self._disk.sync_directory(self._directory)
        self._ids.append(snapshot_id)
        self._ids.sort()

    def _path(self, snapshot_id: OffsetAndEpoch) -> PurePath:
        return self._directory / snapshot_file_name(snapshot_id)


class FileRawSnapshotWriter:
    """A snapshot in progress (`headwater.raft.replicated_log.RawSnapshotWriter`)."""

    __slots__ = ("_file", "_files", "size_bytes", "snapshot_id")

    def __init__(self, files: SnapshotFiles, disk: Disk, snapshot_id: OffsetAndEpoch) -> None:
        self._files = files
        self.snapshot_id = snapshot_id
        self.size_bytes = 0
        path = files.partial_path(snapshot_id)
        # An earlier download of the same snapshot may have been given up.
        disk.remove(path)
        self._file: File = disk.open(path, create=True)

    def append(self, data: Buffer) -> None:
        self._file.write([data], self.size_bytes)
        self.size_bytes += len(data)

    def freeze(self) -> None:
        self._file.sync()
        self._file.close()
        self._files.publish(self.snapshot_id)

    def close(self) -> None:
        """Give up; the next start deletes the file."""
        self._file.close()
