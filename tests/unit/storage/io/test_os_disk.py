"""Disk port on the real file system."""

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.common.exceptions import StorageError
from headwater.records.batch_header import Buffer
from headwater.storage.io import os_disk
from headwater.storage.io.os_disk import MAX_BUFFERS_PER_WRITE, OsDisk


def test_read_returns_what_was_written(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "log", create=True)
    file.write([b"world"], 6)
    file.write([b"hel", bytearray(b"lo"), memoryview(b",")], 0)
    assert file.read(100, 0) == b"hello,world"
    assert file.read(3, 9) == b"ld"
    assert file.size() == 11
    file.close()


def test_more_buffers_than_iov_max_are_all_written(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "log", create=True)
    buffers = [str(number).encode() for number in range(2 * MAX_BUFFERS_PER_WRITE + 3)]
    file.write(buffers, 5)
    assert file.read(1 << 20, 5) == b"".join(buffers)
    file.close()


@pytest.mark.parametrize("buffers", [[b"0123456789"], [b"012", b"", b"3456", b"789"]])
def test_a_short_write_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffers: list[bytes]
) -> None:
    def short_pwrite(descriptor: int, buffer: Buffer, position: int) -> int:
        return os.pwrite(descriptor, buffer[:3], position)

    def short_pwritev(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwrite(descriptor, b"".join(buffers)[:5], position)

    monkeypatch.setattr(os_disk, "pwrite", short_pwrite)
    monkeypatch.setattr(os_disk, "pwritev", short_pwritev)
    file = OsDisk().open(tmp_path / "log", create=True)
    file.write(buffers, 2)
    assert file.read(100, 0) == b"\0\x000123456789"
    file.close()


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short_pread(descriptor: int, length: int, position: int) -> bytes:
        return os.pread(descriptor, min(length, 3), position)

    file = OsDisk().open(tmp_path / "log", create=True)
    file.write([b"0123456789"], 0)
    monkeypatch.setattr(os_disk, "pread", short_pread)
    assert file.read(8, 1) == b"12345678"
    assert file.read(100, 1) == b"123456789"
    file.close()


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_failed_write_is_a_storage_error_with_path_and_reason(
    tmp_path: Path,
) -> None:
    file = OsDisk().open(tmp_path / "log", create=True)
    with (
        files_no_longer_than(1000),
        pytest.raises(StorageError, match=r"cannot write .*/log: File too large"),
    ):
        file.write([bytes(2000)], 0)
    assert file.size() == 1000
    file.close()


def test_missing_file_is_created_only_on_request(tmp_path: Path) -> None:
    disk = OsDisk()
    with pytest.raises(StorageError, match=r"cannot open .*/log: No such file"):
        disk.open(tmp_path / "log")
    disk.open(tmp_path / "log", create=True).close()
    disk.open(tmp_path / "log").close()


def test_a_view_shows_the_contents_and_outlives_the_file(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "log", create=True)
    assert bytes(file.view()) == b""
    file.write([b"hello"], 0)
    view = file.view()
    file.close()
    assert view.readonly
    assert bytes(view) == b"hello"
    assert bytes(view[1:3]) == b"el"


def test_closing_twice_does_not_close_a_reused_descriptor(tmp_path: Path) -> None:
    disk = OsDisk()
    file = disk.open(tmp_path / "one", create=True)
    file.close()
    other = disk.open(tmp_path / "two", create=True)
    file.close()
    other.write([b"x"], 0)
    other.close()


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "log", create=True)
    assert not os.get_inheritable(file.fileno())
    file.close()


def test_files_are_not_world_readable(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for is_kept in (False, True):
            path = tmp_path / f"log-{is_kept}"
            OsDisk().open(path, create=True, is_kept=is_kept).close()
            assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_status_has_size_and_modification_time_of_regular_files_only(tmp_path: Path) -> None:
    disk = OsDisk()
    path = tmp_path / "log"
    disk.open(path, create=True).close()
    disk.set_modified(path, 1_700_000_000_123)
    status = disk.status(path)
    assert status is not None
    assert (status.size, status.modified_ms) == (0, 1_700_000_000_123)
    assert disk.status(tmp_path / "none") is None
    assert disk.status(path / "below-a-file") is None
    assert disk.status(tmp_path) is None


def test_directories_are_made_listed_and_removed(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.make_directory(tmp_path / "a" / "b")
    disk.make_directory(tmp_path / "a" / "b")
    disk.open(tmp_path / "a" / "b" / "y", create=True).close()
    disk.open(tmp_path / "a" / "x", create=True).close()
    disk.sync_directory(tmp_path / "a")
    assert disk.names(tmp_path / "a") == ["b", "x"]
    assert disk.names(tmp_path / "none") == []
    disk.rename(tmp_path / "a" / "x", tmp_path / "a" / "b" / "y")
    assert disk.names(tmp_path / "a") == ["b"]
    disk.remove_tree(tmp_path / "a")
    disk.remove_tree(tmp_path / "a")
    disk.remove(tmp_path / "a" / "x")
    assert disk.names(tmp_path) == []


@pytest.mark.parametrize("operation", ["names", "make_directory", "remove_tree", "sync_directory"])
def test_directory_operations_on_a_file_are_storage_errors(tmp_path: Path, operation: str) -> None:
    disk = OsDisk()
    disk.open(tmp_path / "file", create=True).close()
    with pytest.raises(StorageError, match="/file: "):
        getattr(disk, operation)(tmp_path / "file")


def test_volume_has_total_and_usable_bytes(tmp_path: Path) -> None:
    volume = OsDisk().volume(tmp_path)
    assert 0 < volume.usable_bytes <= volume.total_bytes
    with pytest.raises(StorageError, match="free space"):
        OsDisk().volume(tmp_path / "none")


def test_preallocated_space_is_not_in_the_size_and_is_released(tmp_path: Path) -> None:
    """A file that looked longer than what was written would be read as damaged."""
    disk = OsDisk()
    file = disk.open(tmp_path / "log", create=True)
    file.preallocate(1 << 20)
    reserved_bytes = (tmp_path / "log").stat().st_blocks * 512
    file.write([b"ten bytes!"], 0)
    assert file.size() == 10
    assert file.read(100, 0) == b"ten bytes!"
    file.truncate(10)
    file.sync()
    file.close()
    assert (tmp_path / "log").read_bytes() == b"ten bytes!"
    if reserved_bytes:  # Not every file system can.
        assert reserved_bytes >= 1 << 20
        assert (tmp_path / "log").stat().st_blocks * 512 < 1 << 20
