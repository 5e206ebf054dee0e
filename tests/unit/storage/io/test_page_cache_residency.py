"""How much of a file is in memory."""

import os
from mmap import PAGESIZE
from pathlib import Path

import pytest

from headwater.storage.io.page_cache_residency import (
    AssumedResidency,
    CachestatResidency,
    NowaitResidency,
    can_read_nowait,
    pages_in,
    probe_page_cache_read,
    probe_residency,
)
from tests.unit.storage.page_cache import a_file, cached_pages, drop_from_memory, need_cachestat


@pytest.mark.parametrize(
    ("position", "length", "pages"),
    [
        (0, 0, 0),
        (0, 1, 1),
        (0, PAGESIZE, 1),
        (0, PAGESIZE + 1, 2),
        (PAGESIZE - 1, 2, 2),
        (PAGESIZE, PAGESIZE, 1),
    ],
)
def test_a_range_touches_every_page_it_has_a_byte_in(
    position: int, length: int, pages: int
) -> None:
    assert pages_in(position, length) == pages


def test_cachestat_counts_exactly_the_pages_in_memory(tmp_path: Path) -> None:
    need_cachestat(tmp_path)
    residency = CachestatResidency()
    file = a_file(tmp_path / "log", 100 * PAGESIZE)
    assert residency.resident_pages(file, 0, file.size()) == 100
    drop_from_memory(file)
    assert residency.resident_pages(file, 0, file.size()) == 0
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    file.read(1, 50 * PAGESIZE)
    assert residency.resident_pages(file, 0, file.size()) == 1
    assert residency.resident_pages(file, 50 * PAGESIZE + 7, 1) == 1
    assert residency.resident_pages(file, 50 * PAGESIZE, 0) == 0
    assert residency.resident_pages(file, 0, 50 * PAGESIZE) == 0
    assert residency.resident_pages(file, 51 * PAGESIZE, PAGESIZE) == 0
    file.close()


def test_reading_without_waiting_tells_resident_from_not(tmp_path: Path) -> None:
    need_cachestat(tmp_path)
    file = a_file(tmp_path / "log", 100 * PAGESIZE)
    if not can_read_nowait(file.fileno()):
        pytest.skip("the file system has no RWF_NOWAIT")
    assert NowaitResidency().resident_pages(file, 5, file.size() - 5) == 100
    drop_from_memory(file)
    # Not the whole file: the first refusal may have started readahead for the rest. On a fast disk
    # the asking itself may even bring the page in before it is answered; then it is there indeed.
    assert NowaitResidency().resident_pages(file, 0, PAGESIZE) == 0 or cached_pages(file) > 0
    file.close()


def test_a_glance_reads_what_is_in_memory_and_nothing_else(tmp_path: Path) -> None:
    need_cachestat(tmp_path)
    file = a_file(tmp_path / "log", 100 * PAGESIZE)
    page_cache_read = probe_page_cache_read(file)
    if page_cache_read is None:
        pytest.skip("the file system has no RWF_NOWAIT")
    content = bytearray(file.read(100, 5))
    assert page_cache_read(file, 100, 5) == content
    assert page_cache_read(file, 100, file.size() - 99) is None, "not all of it exists"
    drop_from_memory(file)
    # On a fast disk the asking itself may bring the page in.
    assert page_cache_read(file, 100, 5) in (None, content)
    file.close()


def test_the_best_way_that_works_is_chosen(tmp_path: Path) -> None:
    file = a_file(tmp_path / "log", 1)
    chosen = probe_residency(file)
    if CachestatResidency().cached_pages(file.fileno(), 0, 1) >= 0:
        assert isinstance(chosen, CachestatResidency)
    elif can_read_nowait(file.fileno()):
        assert isinstance(chosen, NowaitResidency)
    else:
        assert isinstance(chosen, AssumedResidency)
    assert chosen.resident_pages(file, 0, 1) == 1
    file.close()


def test_a_closed_file_is_taken_for_not_resident(tmp_path: Path) -> None:
    file = a_file(tmp_path / "log", 1)
    file.close()
    assert CachestatResidency().resident_pages(file, 0, 1) < 1
    assert NowaitResidency().resident_pages(file, 0, 1) < 1
