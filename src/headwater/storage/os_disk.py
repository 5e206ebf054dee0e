"""The disk port on the real file system.

What a reader would get wrong: `OsFile.sync` is `fdatasync`, and that is enough. It flushes the
data and whatever metadata is needed to read it back, a grown size included; it leaves out only
times. The name of a new file is not metadata of the file: that is `sync_directory`'s work.

`OsFile.write` with one buffer is the hottest call of the broker, so it goes straight to `pwrite`
and everything unusual (several buffers, short writes) is dealt with elsewhere.
"""

import os
import shutil
import stat
from collections.abc import Sequence
from mmap import ACCESS_READ, mmap
from os import fstat, pread, pwrite, pwritev
from pathlib import PurePath

from headwater.model.failures import StorageError
from headwater.records.header import Buffer
from headwater.storage.disk import FileStatus

MAX_BUFFERS_PER_WRITE = os.sysconf("SC_IOV_MAX")

# macOS has no fdatasync; its fsync does at least as much.
_sync_data = getattr(os, "fdatasync", os.fsync)


class OsFile:
    """An open file of the operating system. `OsDisk.open` makes it."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: PurePath) -> None:
        self._descriptor = descriptor
        self._path = path

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        try:
            if len(buffers) == 1:
                buffer = buffers[0]
                if pwrite(self._descriptor, buffer, position) == len(buffer):
                    return
            # A short write is not remembered: writing the same bytes again is harmless.
            _write_all(self._descriptor, buffers, position)
        except OSError as error:
            raise _failure("write", self._path, error) from error

    def read(self, length: int, position: int) -> bytes:
        try:
            chunk = pread(self._descriptor, length, position)
            if len(chunk) == length:
                return chunk
            return _read_on(self._descriptor, chunk, length, position)
        except OSError as error:
            raise _failure("read", self._path, error) from error

    def size(self) -> int:
        try:
            return fstat(self._descriptor).st_size
        except OSError as error:
            raise _failure("ask the size of", self._path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _failure("truncate", self._path, error) from error

    def sync(self) -> None:
        try:
            _sync_data(self._descriptor)
        except OSError as error:
            raise _failure("sync", self._path, error) from error

    def view(self) -> memoryview:
        """The mapping lives as long as the view or any slice of it.

        Python's mapping keeps a descriptor of its own, so views count against the process's limit
        just as open files do.
        """
        try:
            size = fstat(self._descriptor).st_size
            if size == 0:
                return memoryview(b"")
            return memoryview(mmap(self._descriptor, size, access=ACCESS_READ))
        except OSError as error:
            raise _failure("map", self._path, error) from error

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        """Closing twice is fine; the number may by then belong to another file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            os.close(descriptor)
        except OSError as error:
            raise _failure("close", self._path, error) from error


class OsDisk:
    """The file system of this machine."""

    def open(self, path: PurePath, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return OsFile(os.open(path, flags, 0o644), path)
        except OSError as error:
            raise _failure("open", path, error) from error

    def status(self, path: PurePath) -> FileStatus | None:
        try:
            found = os.stat(path)  # noqa: PTH116, a PurePath has no stat
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _failure("look at", path, error) from error
        if not stat.S_ISREG(found.st_mode):
            return None
        return FileStatus(size=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)

    def names(self, directory: PurePath) -> list[str]:
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208, a PurePath cannot list
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failure("list", directory, error) from error

    def make_directory(self, path: PurePath) -> None:
        try:
            os.makedirs(path, exist_ok=True)  # noqa: PTH103, a PurePath cannot make one
        except OSError as error:
            raise _failure("make directory", path, error) from error

    def rename(self, source: PurePath, target: PurePath) -> None:
        try:
            os.replace(source, target)  # noqa: PTH105, a PurePath cannot rename
        except OSError as error:
            raise _failure(f"rename to {target.name}", source, error) from error

    def remove(self, path: PurePath) -> None:
        try:
            os.unlink(path)  # noqa: PTH108, a PurePath cannot remove
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failure("remove", path, error) from error

    def remove_tree(self, path: PurePath) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failure("remove", path, error) from error

    def sync_directory(self, path: PurePath) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _failure("sync directory", path, error) from error

    def set_modified(self, path: PurePath, modified_ms: int) -> None:
        try:
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
        except OSError as error:
            raise _failure("set the time of", path, error) from error

    def free_bytes(self, path: PurePath) -> int:
        try:
            system = os.statvfs(path)
        except OSError as error:
            raise _failure("ask the free space of", path, error) from error
        # What a process without privileges may use, which is less than what is free.
        return system.f_bavail * system.f_frsize


def _write_all(descriptor: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write many buffers, or one that did not go out at once."""
    rest = [memoryview(buffer) for buffer in buffers if len(buffer) > 0]
    start = 0
    while start < len(rest):
        written = pwritev(descriptor, rest[start : start + MAX_BUFFERS_PER_WRITE], position)
        if written == 0:
            raise OSError("the system took no bytes")
        position += written
        while start < len(rest) and written >= len(rest[start]):
            written -= len(rest[start])
            start += 1
        if written > 0:
            rest[start] = rest[start][written:]


def _read_on(descriptor: int, chunk: bytes, length: int, position: int) -> bytes:
    """Read on after a short read, until the file ends."""
    chunks = [chunk]
    have = len(chunk)
    while chunk and have < length:
        chunk = pread(descriptor, length - have, position + have)
        chunks.append(chunk)
        have += len(chunk)
    return b"".join(chunks)


def _failure(what: str, path: PurePath, error: OSError) -> StorageError:
    return StorageError(f"cannot {what} {path}: {error.strerror or error}")
