"""Hot and cold reads, on a fake disk and on a real one."""

import random
from pathlib import Path, PurePath

import pytest

from headwater.common.exceptions import HeadwaterError, QueueFull, StorageError
from headwater.records.batch_header import Buffer
from headwater.storage.io.cold_read import OsColdRead, read_buffered
from headwater.storage.io.disk import File
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.file_range_reader import SMALL_BYTES, ColdReadLimits, FileRangeReader
from headwater.storage.io.open_files import CachedFile, OpenFiles
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.io.page_cache_residency import (
    AssumedResidency,
    PageCacheRead,
    pages_in,
    probe_residency,
)
from headwater.storage.io.segment_cache import CachedRange
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.unit.storage.page_cache import a_file, cached_pages, drop_from_memory, need_cachestat


class PartlyResident:
    """Everything but the first page is in memory."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return pages_in(position, length) - (position < 4096)


class Deliveries:
    """Results of the reads, in order."""

    def __init__(self) -> None:
        self.all: list[FileRange | bytes | HeadwaterError] = []

    def deliver(self, content: FileRange | CachedRange | Buffer) -> None:
        assert not isinstance(content, CachedRange)
        self.all.append(content if isinstance(content, FileRange) else bytes(content))

    def fail(self, error: HeadwaterError) -> None:
        self.all.append(error)


def page_cache_read(file: File, length: int, position: int) -> bytearray | None:
    """Read if `PartlyResident` reports the whole range as resident."""
    is_resident = PartlyResident().resident_pages(file, position, length) == pages_in(
        position, length
    )
    return bytearray(file.read(length, position)) if is_resident else None


class Scene:
    """One file of three pages on a fake disk, and a reader whose jobs run on demand."""

    def __init__(
        self, cold_limit_bytes: int = 10_000, page_cache_read: PageCacheRead | None = None
    ) -> None:
        self.disk = LossyDisk(random.Random(1))
        self.cache = OpenFiles(self.disk, 2)
        self.file = self.cache.open(PurePath("/log"), create=True)
        self.content = random.Random(2).randbytes(3 * 4096)
        self.file.file().write([self.content], 0)
        self.executor = HeldExecutor(random.Random(3))
        self.reader = FileRangeReader(
            PartlyResident(),
            self.executor,
            read_buffered,
            limits=ColdReadLimits(total_bytes=cold_limit_bytes, reads_per_directory=4),
            page_cache_read=page_cache_read,
        )
        self.seen = Deliveries()

    def read(self, position: int, length: int, file: CachedFile | None = None) -> FileRange:
        wanted = FileRange(file=file or self.file, position=position, length=length)
        self.reader.read(wanted, self.seen.deliver, self.seen.fail)
        return wanted


def test_resident_range_is_delivered_as_file_range_and_held() -> None:
    scene = Scene()
    wanted = scene.read(4096, 8192)
    assert scene.seen.all == [wanted]
    assert scene.file.is_held
    wanted.release()
    assert not scene.file.is_held
    assert (scene.reader.hot_count, scene.reader.cold_count) == (1, 0)


def test_small_resident_range_is_delivered_as_bytes_and_not_held() -> None:
    scene = Scene(page_cache_read=page_cache_read)
    scene.read(5_000, 3_000)
    assert scene.seen.all == [scene.content[5_000:8_000]]
    assert not scene.file.is_held
    assert (scene.reader.hot_count, scene.reader.cold_count) == (1, 0)


def test_small_range_that_is_not_resident_is_read_in_the_executor() -> None:
    scene = Scene(page_cache_read=page_cache_read)
    scene.read(10, 100)
    assert scene.seen.all == []
    scene.executor.finish()
    assert scene.seen.all == [scene.content[10:110]]
    assert (scene.reader.hot_count, scene.reader.cold_count) == (0, 1)


def test_a_large_resident_range_is_not_copied() -> None:
    scene = Scene(page_cache_read=page_cache_read)
    big = scene.cache.open(PurePath("/big"), create=True)
    big.file().write([bytes(8 * SMALL_BYTES)], 0)
    wanted = scene.read(4_096, SMALL_BYTES + 1, big)
    assert scene.seen.all == [wanted]
    wanted.release()


def test_range_with_one_missing_page_is_read_in_the_executor() -> None:
    scene = Scene()
    scene.read(4095, 8000)
    assert scene.seen.all == []
    assert scene.file.is_held
    scene.executor.finish()
    assert scene.seen.all == [scene.content[4095:12_095]]
    assert not scene.file.is_held


def test_cold_reads_stay_within_their_byte_limit_and_start_in_order() -> None:
    scene = Scene(cold_limit_bytes=1000)
    for length in (400, 500, 200, 5000, 1):
        scene.read(0, length)
    assert (scene.reader.cold_bytes_under_way, scene.reader.waiting_count) == (900, 3)
    started = [scene.reader.cold_bytes_under_way]
    while scene.executor.step():
        started.append(scene.reader.cold_bytes_under_way)
    lengths = [len(content) for content in scene.seen.all if isinstance(content, bytes)]
    assert sorted(lengths) == [1, 200, 400, 500, 5000]
    assert lengths[-2:] == [5000, 1], "the oversized one went alone and none overtook it"
    assert all(under_way <= 1000 or under_way == 5000 for under_way in started)
    assert scene.reader.cold_bytes_under_way == 0


def test_many_small_cold_reads_hold_few_descriptors() -> None:
    scene = Scene()
    files = [scene.cache.open(PurePath(f"/{number}"), create=True) for number in range(20)]
    for cached in files:
        scene.read(0, 1, cached)
    assert sum(cached.is_held for cached in files) == 4
    assert scene.cache.open_count == 5, "the four, and the one that was asked about last"
    scene.executor.finish()
    assert scene.seen.all == [b""] * 20
    assert not any(cached.is_held for cached in files)


def test_queued_read_of_a_removed_file_delivers_nothing_without_error() -> None:
    """Compaction replaces files too: OFFSET_OUT_OF_RANGE would make a consumer skip data."""
    scene = Scene(cold_limit_bytes=10)
    scene.read(0, 10)
    scene.read(5, 10)
    scene.file.forget()
    scene.executor.finish()
    first, second = scene.seen.all
    assert first == scene.content[:10], "a read under way has its descriptor"
    assert second == b""


def test_a_failing_disk_fails_the_read_and_not_the_next() -> None:
    scene = Scene(cold_limit_bytes=10)
    scene.read(0, 10)
    scene.read(1, 10)
    scene.disk.fail_next_read("log")
    scene.executor.finish()
    assert isinstance(scene.seen.all[0], StorageError)
    assert scene.seen.all[1] == scene.content[1:11]
    assert not scene.file.is_held


def test_a_file_that_cannot_be_opened_fails_the_read() -> None:
    scene = Scene()
    scene.read(0, 1, scene.cache.open(PurePath("/none")))
    assert isinstance(scene.seen.all[0], StorageError)


def test_a_refusing_executor_fails_the_read() -> None:
    class Full(InlineExecutor):
        """An executor with no room."""

        def submit(self, *_: object, **__: object) -> None:
            raise QueueFull("full")

    scene = Scene()
    reader = FileRangeReader(
        PartlyResident(), Full(), read_buffered, limits=ColdReadLimits(total_bytes=1)
    )
    wanted = FileRange(file=scene.file, position=0, length=1)
    reader.read(wanted, scene.seen.deliver, scene.seen.fail)
    assert isinstance(scene.seen.all[0], QueueFull)
    assert not scene.file.is_held
    assert reader.cold_bytes_under_way == 0


def test_exception_in_a_callback_does_not_stop_queued_reads() -> None:
    def mistake(_: object) -> None:
        raise ZeroDivisionError

    scene = Scene(cold_limit_bytes=10)
    wanted = FileRange(file=scene.file, position=0, length=10)
    scene.reader.read(wanted, mistake, scene.seen.fail)
    scene.read(0, 10)
    with pytest.raises(ZeroDivisionError):
        scene.executor.finish()
    scene.executor.finish()
    assert scene.seen.all == [scene.content[:10]]


def test_a_truncated_file_delivers_what_is_left() -> None:
    scene = Scene()
    scene.read(0, 100)
    scene.file.file().truncate(60)
    scene.executor.finish()
    assert scene.seen.all == [scene.content[:60]]


def test_everything_is_hot_without_residency_information() -> None:
    scene = Scene()
    reader = FileRangeReader(
        AssumedResidency(), scene.executor, read_buffered, limits=ColdReadLimits(total_bytes=1)
    )
    wanted = FileRange(file=scene.file, position=0, length=10)
    reader.read(wanted, scene.seen.deliver, scene.seen.fail)
    assert scene.seen.all == [wanted]


def test_range_on_a_real_disk_is_cold_after_eviction(tmp_path: Path) -> None:
    need_cachestat(tmp_path)
    written = a_file(tmp_path / "log", 1 << 20)
    whole = written.read(1 << 20, 0)
    cached = OpenFiles(OsDisk(), 2).open(tmp_path / "log")
    reader = FileRangeReader(
        probe_residency(written),
        InlineExecutor(),
        OsColdRead(),
        limits=ColdReadLimits(total_bytes=1 << 20),
    )
    wanted = FileRange(file=cached, position=1000, length=900_000)
    seen = Deliveries()
    reader.read(wanted, seen.deliver, seen.fail)
    drop_from_memory(written)
    reader.read(wanted, seen.deliver, seen.fail)
    assert seen.all == [wanted, whole[1000:901_000]]
    assert cached_pages(written) == 0
    wanted.release()
    cached.forget()
    written.close()


@pytest.mark.parametrize("error", [OSError("out of memory"), MemoryError()])
def test_unexpected_error_fails_the_read_and_frees_its_place(error: Exception) -> None:
    scene = Scene()
    errors = [error]

    def failing_once(file: File, length: int, position: int) -> Buffer:
        if errors:
            raise errors.pop()
        return read_buffered(file, length, position)

    scene.reader = FileRangeReader(
        PartlyResident(),
        scene.executor,
        failing_once,
        limits=ColdReadLimits(total_bytes=10_000, reads_per_directory=1),
    )
    scene.read(0, 100)
    scene.executor.finish()
    (failure,) = scene.seen.all
    assert isinstance(failure, StorageError)
    assert not scene.file.is_held
    scene.read(0, 100)
    scene.executor.finish()
    assert scene.seen.all[1:] == [scene.content[:100]]
