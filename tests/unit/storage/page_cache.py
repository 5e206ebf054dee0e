"""Helpers for page cache tests: a real file on a real disk, in and out of memory."""

import os
from pathlib import Path

import pytest

from headwater.storage.io.os_disk import OsDisk, OsFile
from headwater.storage.io.page_cache_residency import CachestatResidency, pages_in

_ATTEMPTS = 1000


def a_file(path: Path, size: int) -> OsFile:
    """Create a synced file of random bytes, so that its pages are clean and can be dropped."""
    file = OsDisk().open(path, create=True)
    file.write([os.urandom(size)], 0)
    file.sync()
    return file


def drop_from_memory(file: OsFile) -> None:
    """Repeat until done: the kernel skips pages that are in use."""
    for _ in range(_ATTEMPTS):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        # Without cachestat the count is negative, and one attempt has to suffice.
        if CachestatResidency().cached_pages(file.fileno(), 0, file.size()) <= 0:
            return
        file.sync()


def cached_pages(file: OsFile) -> int:
    return CachestatResidency().resident_pages(file, 0, file.size())


def need_cachestat(directory: Path) -> None:
    """Skip without cachestat, or if files are in memory only (tmpfs)."""
    file = a_file(directory / "probe", 1 << 16)
    try:
        if CachestatResidency().cached_pages(file.fileno(), 0, 1) < 0:
            pytest.skip("the kernel has no cachestat (Linux 6.5 and later)")
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if cached_pages(file) == pages_in(0, file.size()):
            pytest.skip("the file system keeps its files in memory")
    finally:
        file.close()
