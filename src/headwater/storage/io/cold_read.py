"""Read from disk without leaving the data in the page cache.

A lagging consumer reads gigabytes once. Ordinary reads would evict the pages that tailing consumers
are about to need. Three methods avoid that. They are tried in this order on every read, because a
refusal costs a microsecond and depends on the file system:

1. RWF_DONTCACHE (Linux 6.14 and later): the kernel drops the pages that this read brought in, and
   only those.
2. O_DIRECT: bypasses the page cache, in aligned blocks.
3. An ordinary read, then POSIX_FADV_DONTNEED for the stretches of which nothing was resident
   before. The advice drops pages whatever brought them in, so it would drop the hot tail as well.

Note: RWF_DONTCACHE does not cover readahead. Pages that were read ahead and never requested stay; a
read of 64 KiB was observed to leave 48 pages behind. A cold read therefore uses its own descriptor,
advised RANDOM, which disables readahead for that descriptor alone, and reads large chunks. The
descriptor is opened through /proc, so that it refers to the same file even if the file has been
renamed or removed since.

All functions here block; call them from an executor job.
"""

import errno
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from headwater.common.exceptions import StorageError
from headwater.records.batch_header import Buffer
from headwater.storage.io.disk import File
from headwater.storage.io.page_cache_residency import CachestatResidency
from headwater.storage.io.read_buffers import ReadBufferPool

CHUNK_BYTES = 1 << 20
# Every block size in use divides it.
BLOCK_BYTES = 4096
# Small stretches, so that one hot page keeps little else in memory.
STRETCH_BYTES = 128 * 1024
RWF_DONTCACHE = 0x80
# Old kernel, unsupported file system, no /proc, or no descriptor left to reopen the file.
UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT, errno.EMFILE, errno.ENFILE)

ReadMethod = Callable[[int, int, memoryview], int]
"""Fills the buffer from a position of the descriptor and returns the number of bytes read."""


class ColdRead(Protocol):
    """Read a range without leaving it in the page cache."""

    def __call__(self, file: File, length: int, position: int) -> Buffer: ...


def read_buffered(file: File, length: int, position: int) -> Buffer:
    """Read a range of a disk without a page cache, such as one in memory."""
    return file.read(length, position)


class OsColdRead:
    """Cold reads by the first method that works; falls back to an ordinary read."""

    def __init__(
        self, methods: Sequence[ReadMethod] | None = None, memory: ReadBufferPool | None = None
    ) -> None:
        if methods is None:
            methods = [read_uncached, read_direct, read_and_drop] if sys.platform == "linux" else []
        self._methods = methods
        self._memory = ReadBufferPool() if memory is None else memory

    def __call__(self, file: File, length: int, position: int) -> Buffer:
        content = self._memory.take(length)
        for method in self._methods:
            try:
                read = method(file.fileno(), position, content)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise _failure(file, error) from error
            else:
                return content if read == length else content[:read]
        return read_buffered(file, length, position)


def read_uncached(descriptor: int, position: int, buffer: memoryview) -> int:
    """Read with RWF_DONTCACHE."""
    own = _reopen(descriptor, 0)
    try:
        os.posix_fadvise(own, 0, 0, os.POSIX_FADV_RANDOM)
        return _fill(own, position, buffer, RWF_DONTCACHE)
    finally:
        os.close(own)


def read_direct(descriptor: int, position: int, buffer: memoryview) -> int:
    """Read whole blocks with O_DIRECT into aligned memory and copy the requested part."""
    own = _reopen(descriptor, os.O_DIRECT)
    try:
        with mmap.mmap(-1, CHUNK_BYTES) as aligned, memoryview(aligned) as window:
            read = 0
            while read < len(buffer):
                skip = (position + read) % BLOCK_BYTES
                wanted = min(len(buffer) - read, CHUNK_BYTES - skip)
                blocks = -(-(skip + wanted) // BLOCK_BYTES)
                start = position + read - skip
                got = os.preadv(own, [window[: blocks * BLOCK_BYTES]], start) - skip
                got = min(got, wanted)
                if got <= 0:
                    break
                buffer[read : read + got] = window[skip : skip + got]
                read += got
            return read
    finally:
        os.close(own)


def read_and_drop(descriptor: int, position: int, buffer: memoryview) -> int:
    """Read, then let the kernel drop pages that were not resident before."""
    residency = CachestatResidency()
    own = _reopen(descriptor, 0)
    try:
        os.posix_fadvise(own, 0, 0, os.POSIX_FADV_RANDOM)
        read = 0
        while read < len(buffer):
            stretch = min(len(buffer) - read, STRETCH_BYTES - (position + read) % STRETCH_BYTES)
            start = position + read
            # Whole pages, because the kernel ignores advice about part of a page.
            first, last = start // BLOCK_BYTES, -(-(start + stretch) // BLOCK_BYTES)
            pages = (first * BLOCK_BYTES, (last - first) * BLOCK_BYTES)
            was_resident = residency.cached_pages(own, *pages) > 0
            got = _fill(own, start, buffer[read : read + stretch], 0)
            if not was_resident:
                os.posix_fadvise(own, *pages, os.POSIX_FADV_DONTNEED)
            read += got
            if got < stretch:
                break
        return read
    finally:
        os.close(own)


def drop_pages(file: File, length: int, position: int) -> None:
    """Drop the pages of a file range from the page cache."""
    if sys.platform != "linux":
        return
    first, end = position // BLOCK_BYTES, -(-(position + length) // BLOCK_BYTES)
    try:
        os.posix_fadvise(
            file.fileno(),
            first * BLOCK_BYTES,
            (end - first) * BLOCK_BYTES,
            os.POSIX_FADV_DONTNEED,
        )
    except OSError as error:
        raise _failure(file, error) from error


def _reopen(descriptor: int, flags: int) -> int:
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC | flags)


def _fill(descriptor: int, position: int, buffer: memoryview, flags: int) -> int:
    read = 0
    while read < len(buffer):
        chunk = buffer[read : read + CHUNK_BYTES]
        got = os.preadv(descriptor, [chunk], position + read, flags)
        if got == 0:
            break
        read += got
    return read


def _failure(file: File, error: OSError) -> StorageError:
    # The file may have been renamed since it was opened; /proc has its current name.
    path = os.readlink(f"/proc/self/fd/{file.fileno()}")  # noqa: PTH115, a link without a Path
    return StorageError(f"cannot read {path}: {error.strerror}")
