"""The disk port on the real file system.

What a reader would get wrong: `OsFile.sync` is `fdatasync`, and that is enough. It flushes the
data and whatever metadata is needed to read it back, a grown size included; it leaves out only
times. The name of a new file is not metadata of the file: that is `sync_directory`'s work.

A few descriptors are kept in reserve (`_SpareDescriptors`). Short work, such as writing a
checkpoint or syncing a folder, then goes on when the process has used up all others; were it to
fail, a healthy log directory would be fenced.

`OsFile.write` with one buffer is the hottest call of the broker, so it goes straight to `pwrite`
and everything unusual (several buffers, short writes) is dealt with elsewhere.
"""

import ctypes
import errno
import os
import shutil
import stat
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from os import fstat, pread, pwrite, pwritev
from pathlib import PurePath
from typing import TypeVar

from headwater.common.exceptions import StorageError, TooManyOpenFiles
from headwater.records.batch_header import Buffer
from headwater.storage.io.disk import FileStatus, Volume

T = TypeVar("T")

MAX_BUFFERS_PER_WRITE = os.sysconf("SC_IOV_MAX")

# The limit of the process, and that of the machine.
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_SPARE_DESCRIPTORS = 8

# Records are not for everybody on the machine, and less so what is kept of passwords.
_MODE = 0o640

_libc = ctypes.CDLL(None)
_KEEP_SIZE = 1

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

    def preallocate(self, size: int) -> None:
        _reserve(self._descriptor, size)

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
            raise _failure_to_keep("map", self._path, error) from error

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


class _SpareDescriptors:
    """Descriptors that stand idle until there are no others. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spares: list[int] = []
        weakref.finalize(self, _close_all, self._spares)
        self._refill()

    def run(self, action: Callable[[], T]) -> T:
        """Do something; where it finds no descriptor, do it again with the spare ones."""
        try:
            result = action()
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS:
                raise
        else:
            if len(self._spares) < _SPARE_DESCRIPTORS:
                with self._lock:
                    self._refill()
            return result
        with self._lock:
            _close_all(self._spares)
            try:
                return action()
            finally:
                self._refill()

    def _refill(self) -> None:
        try:
            while len(self._spares) < _SPARE_DESCRIPTORS:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            # As many as there are; the next call tries again.
            return


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


class OsDisk:
    """The file system of this machine."""

    def __init__(self) -> None:
        self._spares = _SpareDescriptors()

    def open(self, path: PurePath, *, create: bool = False, is_kept: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            if is_kept:
                return OsFile(os.open(path, flags, _MODE), path)
            return OsFile(self._spares.run(lambda: os.open(path, flags, _MODE)), path)
        except OSError as error:
            failure = _failure_to_keep if is_kept else _failure
            raise failure("open", path, error) from error

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
            return sorted(self._spares.run(lambda: os.listdir(directory)))  # noqa: PTH208
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failure("list", directory, error) from error

    def make_directory(self, path: PurePath) -> None:
        try:
            try:
                os.mkdir(path)  # noqa: PTH102, a PurePath cannot make one
            except FileNotFoundError:
                os.makedirs(path, exist_ok=True)  # noqa: PTH103
            except FileExistsError:
                if not os.path.isdir(path):  # noqa: PTH112
                    raise
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
            self._spares.run(lambda: shutil.rmtree(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failure("remove", path, error) from error

    def sync_directory(self, path: PurePath) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            descriptor = self._spares.run(lambda: os.open(path, flags))
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

    def volume(self, path: PurePath) -> Volume:
        try:
            system = os.statvfs(path)
        except OSError as error:
            raise _failure("ask the free space of", path, error) from error
        return Volume(
            total_bytes=system.f_blocks * system.f_frsize,
            usable_bytes=system.f_bavail * system.f_frsize,
        )


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


def _reserve(descriptor: int, size: int) -> None:
    """`fallocate`, which Python has not: its `posix_fallocate` would make the file longer.

    The outcome is not looked at. A file system that cannot, or has not so much room, still takes
    what is written.
    """
    with suppress(AttributeError):
        _libc.fallocate(descriptor, _KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size))


def _failure_to_keep(what: str, path: PurePath, error: OSError) -> StorageError | TooManyOpenFiles:
    if error.errno in _OUT_OF_DESCRIPTORS:
        return TooManyOpenFiles(f"cannot {what} {path}: {error.strerror}")
    return _failure(what, path, error)


def _failure(what: str, path: PurePath, error: OSError) -> StorageError:
    return StorageError(f"cannot {what} {path}: {error.strerror or error}")
