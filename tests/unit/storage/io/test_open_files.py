"""Cache of open files, on a disk that detects the use of closed ones."""

import random
from pathlib import PurePath

import pytest

from headwater.common.exceptions import StorageError
from headwater.storage.io.open_files import CachedFile, OpenFiles
from tests.simulation.fakes.lossy_disk import LossyDisk

ROOT = PurePath("/")


def made(cache: OpenFiles, count: int) -> list[CachedFile]:
    files = [cache.open(ROOT / f"{number}.log", create=True) for number in range(count)]
    for number, cached in enumerate(files):
        cached.file().write([b"%d" % number], 0)
    return files


def test_many_files_are_used_within_the_limit() -> None:
    cache = OpenFiles(LossyDisk(random.Random(1)), 3)
    files = made(cache, 20)
    for number, cached in enumerate(files):
        assert cached.file().read(10, 0) == b"%d" % number
        assert cache.open_count <= 3
    assert cache.over_limit_count == 0


def test_cached_file_is_opened_at_its_first_use() -> None:
    cache = OpenFiles(LossyDisk(random.Random(1)), 3)
    cached = cache.open(ROOT / "none.log")
    assert cache.open_count == 0
    with pytest.raises(StorageError, match="No such file"):
        cached.file()
    assert cache.open_count == 0


def test_a_file_in_use_gets_a_second_chance() -> None:
    cache = OpenFiles(LossyDisk(random.Random(1)), 3)
    (hot,) = made(cache, 1)
    first = hot.file()
    for number in range(10, 30):
        cache.open(ROOT / f"{number}.log", create=True)
        assert hot.file() is first


def test_a_held_file_stays_open_and_the_excess_is_counted() -> None:
    cache = OpenFiles(LossyDisk(random.Random(1)), 2)
    files = made(cache, 4)
    held = [cached.hold() for cached in files]
    assert cache.open_count == 4
    assert cache.over_limit_count == 2
    assert [file.read(1, 0) for file in held] == [b"0", b"1", b"2", b"3"]
    for cached in files:
        cached.release()
    cache.open(ROOT / "other.log", create=True)
    assert cache.open_count == 2


def test_a_file_forgotten_under_a_hold_is_closed_by_the_last_release() -> None:
    cache = OpenFiles(LossyDisk(random.Random(1)), 2)
    (cached,) = made(cache, 1)
    with cached.held() as file:
        cached.hold()
        cached.forget()
        cached.release()
        assert file.read(1, 0) == b"0"
    assert cache.open_count == 0
    with pytest.raises(AssertionError, match="after it was closed"):
        file.read(1, 0)


def test_a_renamed_file_is_reopened_by_its_new_name() -> None:
    disk = LossyDisk(random.Random(1))
    cache = OpenFiles(disk, 1)
    (cached,) = made(cache, 1)
    disk.rename(cached.path, ROOT / "moved.log")
    cached.moved_to(ROOT / "moved.log")
    assert cached.file().read(1, 0) == b"0"
    cache.open(ROOT / "other.log", create=True)
    assert cached.file().read(1, 0) == b"0"


def test_a_forgotten_file_is_not_reopened() -> None:
    cache = OpenFiles(LossyDisk(random.Random(1)), 1)
    (cached,) = made(cache, 1)
    cached.forget()
    cached.forget()
    with pytest.raises(AssertionError, match="after it was forgotten"):
        cached.file()


def test_surplus_release_is_detected() -> None:
    (cached,) = made(OpenFiles(LossyDisk(random.Random(1)), 1), 1)
    with pytest.raises(AssertionError, match="released more often"):
        cached.release()


def test_view_is_reused_until_more_bytes_are_requested() -> None:
    (cached,) = made(OpenFiles(LossyDisk(random.Random(1)), 1), 1)
    view = cached.view()
    cached.file().write([b"more"], 1)
    assert cached.view() is view
    assert bytes(cached.view(5)) == b"0more"
    assert bytes(view) == b"0"


def test_dropped_view_allows_truncation_and_fails_its_user() -> None:
    (cached,) = made(OpenFiles(LossyDisk(random.Random(1)), 1), 1)
    view = cached.view()
    cached.drop_view()
    cached.drop_view()
    cached.file().truncate(0)
    with pytest.raises(ValueError, match="released"):
        view[0]
    assert bytes(cached.view()) == b""


def test_views_stay_within_their_limit_and_evicted_ones_remain_usable() -> None:
    cache = OpenFiles(LossyDisk(random.Random(1)), 2, view_limit=3)
    files = made(cache, 10)
    hot = files[0].view()
    views = []
    for cached in files:
        assert files[0].view() is hot
        views.append(cached.view())
        assert cache.view_count <= 3
    assert views == [b"%d" % number for number in range(10)]


def test_closing_the_cache_closes_all_but_held_files() -> None:
    cache = OpenFiles(LossyDisk(random.Random(1)), 9)
    files = made(cache, 3)
    files[0].view()
    held = files[1].hold()
    cache.close()
    assert (cache.open_count, cache.view_count) == (1, 0)
    assert held.read(1, 0) == b"1"
    files[1].release()
    assert cache.open_count == 0
