"""Report how much of a file range is in the page cache, without reading it.

There are three methods; `probe_residency` chooses the first that works, once at start:

1. `cachestat`, Linux 6.5 and later: exact and without side effects. Called through ctypes, because
   neither Python nor older C libraries have it.
2. `preadv` with RWF_NOWAIT: reads a sample byte here and there, refused where the disk would be
   needed. Less exact, and a refused byte starts readahead.
3. Assume that everything is resident, as Kafka does.

Note: the result is a guess about the next microseconds. A page can be evicted right after, or be
counted while it is still being read in; then a sendfile blocks the event loop for one disk read,
which is a delay, not an error.
"""

import ctypes
import errno
import os
import sys
from mmap import PAGESIZE
from typing import Protocol

from headwater.storage.io.disk import File

CACHESTAT = 451
SAMPLE_BYTES = 16 * PAGESIZE

_Range = ctypes.c_uint64 * 2  # offset, length
_Counts = ctypes.c_uint64 * 5  # cached, dirty, in writeback, evicted, recently evicted


class PageCacheRead(Protocol):
    """Reads from the page cache and never waits for a disk."""

    def __call__(self, file: File, length: int, position: int) -> bytearray | None:
        """Return the bytes; None if not resident or if residency is unknown."""


class Residency(Protocol):
    """Reports which pages are in the page cache. Not thread-safe."""

    def resident_pages(self, file: File, position: int, length: int) -> int:
        """Return how many of the range's pages are resident."""


def pages_in(position: int, length: int) -> int:
    """Return how many pages a range of bytes touches."""
    if length <= 0:
        return 0
    return (position + length - 1) // PAGESIZE - position // PAGESIZE + 1


class CachestatResidency:
    """Uses the `cachestat` system call; one instance per thread (reused structs)."""

    def __init__(self) -> None:
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.argtypes = [ctypes.c_long, ctypes.c_uint, *[ctypes.c_void_p] * 2, ctypes.c_uint]
        self._call.restype = ctypes.c_long
        self._range = _Range()
        self._counts = _Counts()
        self._range_address = ctypes.addressof(self._range)
        self._counts_address = ctypes.addressof(self._counts)

    def resident_pages(self, file: File, position: int, length: int) -> int:
        # For cachestat, a length of zero means up to the end of the file.
        return self.cached_pages(file.fileno(), position, length) if length > 0 else 0

    def cached_pages(self, descriptor: int, position: int, length: int) -> int:
        """Return the cached pages of a descriptor's range; -1 if cachestat fails."""
        self._range[0] = position
        self._range[1] = length
        if self._call(CACHESTAT, descriptor, self._range_address, self._counts_address, 0) != 0:
            return -1
        return self._counts[0]


class NowaitResidency:
    """Reads one byte of every sixteenth page; it stands for the pages after it."""

    def __init__(self) -> None:
        self._byte = [bytearray(1)]

    def resident_pages(self, file: File, position: int, length: int) -> int:
        descriptor, end = file.fileno(), position + length
        found = 0
        while position < end:
            stop = min(end, position - position % PAGESIZE + SAMPLE_BYTES)
            if self._is_resident(descriptor, position) and self._is_resident(descriptor, stop - 1):
                found += pages_in(position, stop - position)
            position = stop
        return found

    def _is_resident(self, descriptor: int, position: int) -> bool:
        try:
            os.preadv(descriptor, self._byte, position, os.RWF_NOWAIT)
        except OSError:
            # Refused or unsupported: then it is not safe to read on the event loop.
            return False
        return True


class AssumedResidency:
    """Assumes that everything is resident."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return pages_in(position, length)


def probe_residency(file: File) -> Residency:
    """Return the best method that works, tried on a file of the log directory."""
    descriptor = file.fileno()
    if sys.platform == "linux":  # elsewhere the number means another call
        exact = CachestatResidency()
        if exact.cached_pages(descriptor, 0, PAGESIZE) >= 0:
            return exact
    if can_read_nowait(descriptor):
        return NowaitResidency()
    return AssumedResidency()


def can_read_nowait(descriptor: int) -> bool:
    """Return whether RWF_NOWAIT is supported; EAGAIN counts as supported."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return True


def read_nowait(file: File, length: int, position: int) -> bytearray | None:
    """`PageCacheRead` for systems where `can_read_nowait` holds."""
    content = bytearray(length)
    try:
        read = os.preadv(file.fileno(), (content,), position, os.RWF_NOWAIT)
    except OSError:
        return None
    return content if read == length else None


def probe_page_cache_read(file: File) -> PageCacheRead | None:
    """Return a function that reads small resident ranges, or None if unsupported."""
    return read_nowait if can_read_nowait(file.fileno()) else None
