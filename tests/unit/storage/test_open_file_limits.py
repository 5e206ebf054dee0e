"""Running out of file descriptors takes nothing offline, and short operations continue."""

import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError, TooManyOpenFiles
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.io.cold_read import OsColdRead
from headwater.storage.io.disk import read_whole, write_atomically
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.io.os_disk import OsDisk
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.log_lab import LogLab

ROOT = PurePath("/")


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Lower the limit of this process and use up all descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def close_all(files: OpenFiles) -> None:
    for cached in list(files._descriptors.mapped):
        files._unmap(cached)
    files._close_until(0)


def test_short_operations_use_a_reserved_descriptor(tmp_path: Path) -> None:
    disk = OsDisk()
    (tmp_path / "tree").mkdir()
    with no_descriptors():
        for number in range(20):
            write_atomically(disk, tmp_path / "checkpoint", b"%d" % number)
            disk.sync_directory(tmp_path)
        assert read_whole(disk, tmp_path / "checkpoint") == b"19"
        disk.remove_tree(tmp_path / "tree")
        assert disk.names(tmp_path) == ["checkpoint"]


def test_too_many_open_files_is_not_a_disk_failure(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.open(tmp_path / "log", create=True).close()
    with no_descriptors(), pytest.raises(TooManyOpenFiles) as refusal:
        disk.open(tmp_path / "log", is_kept=True)
    assert not isinstance(refusal.value, StorageError)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(StorageError):
        disk.open(tmp_path / "none", is_kept=True)


def test_cache_closes_its_own_files_and_views_first(tmp_path: Path) -> None:
    cache = OpenFiles(OsDisk(), 100)
    files = [cache.open(tmp_path / f"{number}.log", create=True) for number in range(50)]
    for number, cached in enumerate(files):
        cached.file().write([b"%02d" % number], 0)
    assert bytes(files[0].view()) == b"00"
    late = cache.open(tmp_path / "49.log")
    with no_descriptors():
        assert bytes(late.view()) == b"49"
        assert late.file().read(2, 0) == b"49"
    assert 0 < cache.open_count < 50
    assert [bytes(cached.view()) for cached in files] == [b"%02d" % each for each in range(50)]


def test_cold_read_works_without_its_own_descriptor(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "log", create=True)
    file.write([b"content"], 0)
    with no_descriptors():
        assert OsColdRead()(file, 4, 3) == b"tent"
    file.close()


def test_held_files_are_not_closed() -> None:
    disk = LossyDisk(random.Random(1))
    cache = OpenFiles(disk, 10)
    held = cache.open(ROOT / "held.log", create=True)
    file = held.hold()
    other = cache.open(ROOT / "other.log", create=True)
    disk.is_out_of_descriptors = True
    third = cache.open(ROOT / "held.log")
    with pytest.raises(TooManyOpenFiles):
        third.file()
    file.write([b"still open"], 0)
    disk.is_out_of_descriptors = False
    assert other.file().read(1, 0) == b""
    held.release()


def test_log_without_descriptors_refuses_and_recovers() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = LogLab(TopicSettings(segment_bytes=300, index_interval_bytes=1), executor=executor)
    disk = lab.disk
    assert isinstance(disk, LossyDisk)
    lab.append(2)
    executor.finish()
    for count in range(3):
        close_all(lab.files)
        disk.is_out_of_descriptors = True
        with pytest.raises(TooManyOpenFiles):
            lab.append(1)
        with pytest.raises(TooManyOpenFiles):
            lab.log.flush()
        disk.is_out_of_descriptors = False
        lab.append(1)
        assert lab.log.end_offset == 3 + count
    flushed: list[StorageError | None] = []
    lab.log.flush(flushed.append)
    executor.finish()
    assert flushed == [None]
    assert lab.failures == []
    assert [offset for offset, _ in lab.contents()] == [0, 1, 2, 3, 4]


def test_truncation_without_descriptors_takes_the_directory_offline() -> None:
    """RC-5"""
    lab = LogLab()
    lab.append(2)
    disk = lab.disk
    assert isinstance(disk, LossyDisk)
    close_all(lab.files)
    disk.is_out_of_descriptors = True
    with pytest.raises(StorageError):
        lab.log.truncate_to(1, now_ms=lab.now_ms)
    assert len(lab.failures) == 1


def test_flush_callback_gets_the_lack_of_descriptors() -> None:
    """A transaction marker waits like this, and would never be written again."""
    executor = HeldExecutor(random.Random(1))
    lab = LogLab(executor=executor)
    disk = lab.disk
    assert isinstance(disk, LossyDisk)
    lab.append(2)
    flushed: list[StorageError | None] = []
    disk.is_out_of_descriptors = True
    close_all(lab.files)
    lab.log.flush(flushed.append)
    assert [type(each) for each in flushed] == [StorageError]
    assert lab.failures == []
    disk.is_out_of_descriptors = False
    lab.log.flush(flushed.append)
    executor.finish()
    assert flushed[1:] == [None]
    assert lab.log.recovery_point == 2


@pytest.mark.parametrize("is_closed", [False, True])
def test_log_without_recovery_point_is_flushed_a_few_segments_at_a_time(
    is_closed: bool,
) -> None:
    """As after losing a checkpoint: the log may have more segments than there are descriptors."""
    lab = LogLab(TopicSettings(segment_bytes=100), max_open_files=10)
    lab.append(1)
    for _ in range(99):
        lab.append(1)
    assert len(lab.log.local_log.segments) == 100
    lab.recovery_point = 0
    lab.executor = executor = HeldExecutor(random.Random(1))
    log = lab.crash()
    assert log.recovery_point == 0
    flushed: list[StorageError | None] = []
    if is_closed:
        log.close()
    else:
        log.flush(flushed.append)
        while executor.waiting_count:
            assert flushed == []
            assert sum(each.is_held for each in lab.files._descriptors.open) <= 100
            executor.finish()
        assert flushed == [None]
    assert log.recovery_point == 100
    assert lab.failures == []
