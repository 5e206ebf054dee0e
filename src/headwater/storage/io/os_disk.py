"""Disk port on the operating system's file system.

Note: `OsFile.sync` is `fdatasync`, and that is enough. It flushes the data and the metadata needed
to read it back, including a grown size; it leaves out only timestamps. The name of a new file is
not metadata of the file; `sync_directory` makes it durable.

A few descriptors are kept in reserve (`_SpareDescriptors`), so that short operations, such as
writing a checkpoint or syncing a directory, succeed when the process has used up all others.
Otherwise a healthy log directory would be taken offline.

`OsFile.write` with one buffer is the broker's hottest call, so it goes straight to `pwrite`;
several buffers and short writes take the slow path.
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
from time import perf_counter_ns
from typing import TypeVar

from headwater.common.exceptions import StorageError, TooManyOpenFiles
from headwater.common.latency_histogram import LatencyHistogram
from headwater.records.batch_header import Buffer
from headwater.storage.io.disk import FileStatus, Volume

T = TypeVar("T")

MAX_BUFFERS_PER_WRITE = os.sysconf("SC_IOV_MAX")

# The limit of the process and the limit of the machine.
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_SPARE_DESCRIPTORS = 8

# Not world-readable: log directories hold records and SCRAM credentials.
_MODE = 0o640

_LOG_SUFFIX = ".log"

_libc = ctypes.CDLL(None)
_KEEP_SIZE = 1

# macOS has no fdatasync; its fsync does at least as much.
_sync_data = getattr(os, "fdatasync", os.fsync)


class FlushTimes:
    """Times of the syncs of log files, recorded by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.histogram = LatencyHistogram()

    def record(self, took_ns: int) -> None:
        with self._lock:
            self.histogram.record(took_ns)


class OsFile:
    """Open file of the operating system. `OsDisk.open` creates it."""

    __slots__ = ("_descriptor", "_flush_times", "_path")

    def __init__(
        self, descriptor: int, path: PurePath, flush_times: FlushTimes | None = None
    ) -> None:
        self._descriptor = descriptor
        self._path = path
        self._flush_times = flush_times

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        try:
            if len(buffers) == 1:
                buffer = buffers[0]
                if pwrite(self._descriptor, buffer, position) == len(buffer):
                    return
            # After a short write, everything is written again, which is harmless.
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
            raise _failure("get the size of", self._path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _failure("truncate", self._path, error) from error

    def preallocate(self, size: int) -> None:
        _reserve(self._descriptor, size)

    def sync(self) -> None:
        started_ns = perf_counter_ns()
        try:
            _sync_data(self._descriptor)
        except OSError as error:
            raise _failure("sync", self._path, error) from error
        if self._flush_times is not None and self._path.suffix == _LOG_SUFFIX:
            self._flush_times.record(perf_counter_ns() - started_ns)

    def view(self) -> memoryview:
        """Map the file; the mapping lives as long as the view or any slice of it.

        Python's mapping keeps its own descriptor, so views count against the process's limit as
        open files do.
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
        """Close the file; closing twice does not close a reused descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            os.close(descriptor)
        except OSError as error:
            raise _failure("close", self._path, error) from error


class _SpareDescriptors:
    """Descriptors reserved for when the process has no others. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spares: list[int] = []
        weakref.finalize(self, _close_all, self._spares)
        self._refill()

    def run(self, action: Callable[[], T]) -> T:
        """Run an action; without a descriptor, retry with the reserved ones freed."""
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
            # Keep as many as there are; the next call tries again.
            return


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


class OsDisk:
    """File system of this machine."""

    def __init__(self) -> None:
        self._spares = _SpareDescriptors()
        self.flush_times = FlushTimes()

    def open(self, path: PurePath, *, create: bool = False, is_kept: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            if is_kept:
                return OsFile(os.open(path, flags, _MODE), path, self.flush_times)
            descriptor = self._spares.run(lambda: os.open(path, flags, _MODE))
            return OsFile(descriptor, path, self.flush_times)
        except OSError as error:
            failure = _failure_to_keep if is_kept else _failure
            raise failure("open", path, error) from error

    def status(self, path: PurePath) -> FileStatus | None:
        try:
            found = os.stat(path)  # noqa: PTH116, a PurePath has no stat
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _failure("stat", path, error) from error
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
            raise _failure("get the free space of", path, error) from error
        return Volume(
            total_bytes=system.f_blocks * system.f_frsize,
            usable_bytes=system.f_bavail * system.f_frsize,
        )


def _write_all(descriptor: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write several buffers, or the rest after a short write."""
    rest = [memoryview(buffer) for buffer in buffers if len(buffer) > 0]
    start = 0
    while start < len(rest):
        written = pwritev(descriptor, rest[start : start + MAX_BUFFERS_PER_WRITE], position)
        if written == 0:
            raise OSError("the operating system wrote no bytes")
        position += written
        while start < len(rest) and written >= len(rest[start]):
            written -= len(rest[start])
            start += 1
        if written > 0:
            rest[start] = rest[start][written:]


def _read_on(descriptor: int, chunk: bytes, length: int, position: int) -> bytes:
    """Continue after a short read until the end of the file."""
    chunks = [chunk]
    have = len(chunk)
    while chunk and have < length:
        chunk = pread(descriptor, length - have, position + have)
        chunks.append(chunk)
        have += len(chunk)
    return b"".join(chunks)


def _reserve(descriptor: int, size: int) -> None:
    """Reserve space with `fallocate`, without changing the file's length.

    The result is ignored. A file system that cannot do it, or lacks the space, still accepts
    writes.
    """
    with suppress(AttributeError):
        _libc.fallocate(descriptor, _KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size))


def _failure_to_keep(what: str, path: PurePath, error: OSError) -> StorageError | TooManyOpenFiles:
    if error.errno in _OUT_OF_DESCRIPTORS:
        return TooManyOpenFiles(f"cannot {what} {path}: {error.strerror}")
    return _failure(what, path, error)


def _failure(what: str, path: PurePath, error: OSError) -> StorageError:
    return StorageError(f"cannot {what} {path}: {error.strerror or error}")
