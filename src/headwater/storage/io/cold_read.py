"""Reading what is not in the page cache, and leaving it so.

A consumer that lags reads gigabytes once. Read in the usual way they would push out the pages
that tailing consumers are about to need. Three ways avoid it, tried in this order on every read,
since a refusal costs a microsecond and depends on the file system:

1. RWF_DONTCACHE (Linux 6.14 and later): the system drops the pages that this read brought in, and
   only those.
2. O_DIRECT: past the page cache, in aligned blocks.
3. A plain read, then POSIX_FADV_DONTNEED, for stretches of which nothing was resident before:
   advice does not ask who brought a page in, and would drop the hot tail as well.

What a reader would get wrong: readahead is not covered by RWF_DONTCACHE. Pages that were read
ahead and never asked for stay; a read of 64 KiB was seen to leave 48 pages behind it. So a cold
read has a descriptor of its own, advised RANDOM, which turns readahead off for it alone, and asks
for large chunks instead. That descriptor is opened through /proc, so that it is the same file
even if it was renamed or removed since.

Everything here blocks and belongs into an executor's job.
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
# Too old a kernel, a file system that cannot, no /proc, or no descriptor left to open it again.
UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT, errno.EMFILE, errno.ENFILE)

Way = Callable[[int, int, memoryview], int]
"""Fills the buffer from a position of the descriptor; how many bytes there were."""


class ColdRead(Protocol):
    """Reads a range without leaving it in the page cache."""

    def __call__(self, file: File, length: int, position: int) -> Buffer: ...


def read_plainly(file: File, length: int, position: int) -> Buffer:
    """For disks without a page cache, such as one in memory."""
    return file.read(length, position)


class OsColdRead:
    """Cold reads of the operating system, by the first way that works; plainly if none does."""

    def __init__(
        self, ways: Sequence[Way] | None = None, memory: ReadBufferPool | None = None
    ) -> None:
        if ways is None:
            ways = [read_uncached, read_direct, read_and_drop] if sys.platform == "linux" else []
        self._ways = ways
        self._memory = ReadBufferPool() if memory is None else memory

    def __call__(self, file: File, length: int, position: int) -> Buffer:
        content = self._memory.take(length)
        for way in self._ways:
            try:
                read = way(file.fileno(), position, content)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise _failure(file, error) from error
            else:
                return content if read == length else content[:read]
        return read_plainly(file, length, position)


def read_uncached(descriptor: int, position: int, buffer: memoryview) -> int:
    """With RWF_DONTCACHE."""
    own = _reopen(descriptor, 0)
    try:
        os.posix_fadvise(own, 0, 0, os.POSIX_FADV_RANDOM)
        return _fill(own, position, buffer, RWF_DONTCACHE)
    finally:
        os.close(own)


def read_direct(descriptor: int, position: int, buffer: memoryview) -> int:
    """With O_DIRECT: whole blocks into aligned memory, from where the wanted part is copied."""
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
    """Plainly, and then ask the system to drop what was not resident before."""
    residency = CachestatResidency()
    own = _reopen(descriptor, 0)
    try:
        os.posix_fadvise(own, 0, 0, os.POSIX_FADV_RANDOM)
        read = 0
        while read < len(buffer):
            stretch = min(len(buffer) - read, STRETCH_BYTES - (position + read) % STRETCH_BYTES)
            start = position + read
            # Whole pages, because advice about a part of a page is not taken.
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
    # The file may have been renamed since it was opened; the system knows its present name.
    path = os.readlink(f"/proc/self/fd/{file.fileno()}")  # noqa: PTH115, a link without a Path
    return StorageError(f"cannot read {path}: {error.strerror}")
