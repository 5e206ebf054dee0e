"""Cold reads return the right bytes and leave nothing in the page cache."""

import errno
import os
from pathlib import Path

import pytest

from headwater.common.exceptions import StorageError
from headwater.storage.io.cold_read import (
    OsColdRead,
    ReadMethod,
    read_and_drop,
    read_direct,
    read_uncached,
)
from headwater.storage.io.os_disk import OsFile
from headwater.storage.io.page_cache_residency import CachestatResidency, pages_in
from tests.unit.storage.page_cache import a_file, cached_pages, drop_from_memory, need_cachestat

MIB = 1 << 20
METHODS = [read_uncached, read_direct, read_and_drop]


def refused(*_: object) -> int:
    """A method that this kernel does not know."""
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def broken(*_: object) -> int:
    """A method that meets a bad sector."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def skip_unless_it_works(method: ReadMethod, file: OsFile) -> None:
    try:
        method(file.fileno(), 0, memoryview(bytearray(1)))
    except OSError as error:
        pytest.skip(f"{method.__name__} does not work here: {error.strerror}")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("position", "length"),
    [(0, 1), (0, 3 * MIB), (4095, 2), (12_345, 2 * MIB + 77), (3 * MIB - 9, 100), (4 * MIB, 5)],
)
def test_every_method_reads_the_right_bytes(
    tmp_path: Path, method: ReadMethod, position: int, length: int
) -> None:
    file = a_file(tmp_path / "log", 3 * MIB + 50)
    skip_unless_it_works(method, file)
    whole = file.read(file.size(), 0)
    for _ in range(2):
        assert OsColdRead([method])(file, length, position) == whole[position : position + length]
        drop_from_memory(file)
    file.close()


@pytest.mark.parametrize("method", METHODS)
def test_a_large_cold_read_leaves_nearly_nothing_in_memory(
    tmp_path: Path, method: ReadMethod
) -> None:
    need_cachestat(tmp_path)
    file = a_file(tmp_path / "log", 64 * MIB)
    skip_unless_it_works(method, file)
    drop_from_memory(file)
    read = OsColdRead([method])
    for position in range(0, 64 * MIB, 8 * MIB):
        read(file, 8 * MIB, position)
    assert cached_pages(file) < pages_in(0, file.size()) * 0.05
    file.close()


@pytest.mark.parametrize("method", METHODS)
def test_a_small_cold_read_starts_no_readahead(tmp_path: Path, method: ReadMethod) -> None:
    need_cachestat(tmp_path)
    file = a_file(tmp_path / "log", 4 * MIB)
    skip_unless_it_works(method, file)
    drop_from_memory(file)
    read = OsColdRead([method])
    for position in (0, 64 * 1024, 2 * MIB):
        read(file, 64 * 1024, position)
    assert cached_pages(file) == 0
    file.close()


@pytest.mark.parametrize("method", METHODS)
def test_hot_tail_stays_in_the_page_cache_during_a_cold_read(
    tmp_path: Path, method: ReadMethod
) -> None:
    """Under memory pressure the kernel may evict pages by itself, but hardly each time."""
    need_cachestat(tmp_path)
    file = a_file(tmp_path / "log", 8 * MIB)
    skip_unless_it_works(method, file)
    tail = 7 * MIB + 64 * 1024
    seen = [_resident_after_cold_read(file, method, tail) for _ in range(5)]
    assert (pages_in(tail, 8 * MIB - tail), 0) in seen
    file.close()


def _resident_after_cold_read(file: OsFile, method: ReadMethod, tail: int) -> tuple[int, int]:
    """Return the resident pages of the tail, read just before, and of the range read cold."""
    drop_from_memory(file)
    file.read(MIB, tail)
    OsColdRead([method])(file, 8 * MIB, 0)
    resident = CachestatResidency().resident_pages
    return resident(file, tail, 8 * MIB - tail), resident(file, 0, 6 * MIB)


def test_unsupported_method_is_followed_by_the_next(tmp_path: Path) -> None:
    file = a_file(tmp_path / "log", 100)
    whole = file.read(100, 0)
    assert OsColdRead([refused, read_and_drop])(file, 100, 0) == whole
    assert OsColdRead([refused])(file, 90, 5) == whole[5:95]
    file.close()


def test_failing_disk_is_a_storage_error_with_the_current_path(tmp_path: Path) -> None:
    file = a_file(tmp_path / "log", 100)
    (tmp_path / "log").rename(tmp_path / "log.deleted")
    with pytest.raises(StorageError, match=r"cannot read .*/log\.deleted: Input/output error"):
        OsColdRead([broken, read_and_drop])(file, 100, 0)
    file.close()


def test_a_removed_file_is_read_to_the_end(tmp_path: Path) -> None:
    file = a_file(tmp_path / "log", 100)
    whole = file.read(100, 0)
    (tmp_path / "log").unlink()
    assert OsColdRead()(file, 1000, 0) == whole
    file.close()
