"""The cache of cold reads on a faster disk: hits, failures of its disk, crashes."""

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath

import pytest

from headwater.common.exceptions import HeadwaterError, StorageError
from headwater.records.batch_header import Buffer
from headwater.storage.io.cold_read import drop_pages, read_buffered
from headwater.storage.io.disk import Disk, File
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.file_range_reader import ColdReadLimits, FileRangeReader
from headwater.storage.io.open_files import CachedFile, OpenFiles
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.io.segment_cache import (
    RETRY_MS,
    SUFFIX,
    CachedRange,
    CacheLimits,
    SegmentCache,
)
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.unit.storage.page_cache import cached_pages, need_cachestat

FAST = PurePath("/fast/broker-1")
PAGE = 4096


class NothingResident:
    """Every range is cold."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return 0


class CacheScene:
    """Two segments on one disk, the cache on another; jobs run on demand."""

    def __init__(
        self,
        *,
        seed: int = 1,
        min_reads: int = 2,
        size_bytes: int = 1 << 30,
        is_inline: bool = True,
    ) -> None:
        self.rng = random.Random(seed)
        self.slow, self.fast = LossyDisk(random.Random(seed)), LossyDisk(random.Random(seed + 1))
        self.files = OpenFiles(self.slow, 8)
        self.slow_bytes = 0
        self.fast.make_directory(FAST.parent)
        self.now_ms = 0
        self.limits = CacheLimits(size_bytes=size_bytes, min_reads=min_reads)
        self.is_inline = is_inline
        self.executor = HeldExecutor(random.Random(seed + 2))
        self.segments = [self._segment(f"/slow/orders-{number}/0.log") for number in range(2)]
        self.seen: list[bytes | HeadwaterError] = []
        self.hits: list[CachedRange] = []
        self.begin()

    def _segment(self, name: str) -> CachedFile:
        path = PurePath(name)
        self.slow.make_directory(path.parent)
        file = self.files.open(path, create=True)
        file.file().write([self.rng.randbytes(16 * PAGE)], 0)
        return file

    def begin(self) -> None:
        """Start the cache, as a broker's process does."""
        executor = InlineExecutor() if self.is_inline else self.executor
        self.cache = SegmentCache(
            self.fast,
            FAST,
            limits=self.limits,
            reader=executor,
            writer=executor,
            drop_pages=lambda *_: None,
            steady_ms=lambda: self.now_ms,
        )
        self.reader = FileRangeReader(
            NothingResident(),
            executor,
            self._read_slow,
            limits=ColdReadLimits(total_bytes=1 << 20),
            cache=self.cache,
        )
        self.cache.start()

    def _read_slow(self, file: File, length: int, position: int) -> Buffer:
        self.slow_bytes += length
        return read_buffered(file, length, position)

    def read(
        self, position: int, length: int, *, file: CachedFile | None = None, generation: int = 0
    ) -> None:
        def deliver(content: FileRange | CachedRange | Buffer) -> None:
            assert not isinstance(content, FileRange)
            if isinstance(content, CachedRange):
                self.hits.append(content)
                self.seen.append(content.read())
                content.release()
            else:
                self.seen.append(bytes(content))

        wanted = FileRange(file or self.segments[0], position, length)
        self.reader.read(wanted, deliver, self.seen.append, generation=generation)

    def content(self, position: int, length: int) -> bytes:
        return self.segments[0].file().read(length, position)

    def cached_files(self) -> list[str]:
        return [name for name in self.fast.names(FAST) if name.endswith(SUFFIX)]


def test_bytes_are_read_from_the_log_twice_and_then_from_the_cache() -> None:
    scene = CacheScene()
    for _ in range(5):
        scene.read(100, 3 * PAGE)
    assert scene.seen == [scene.content(100, 3 * PAGE)] * 5
    assert scene.slow_bytes == 2 * 3 * PAGE
    cache = scene.cache
    assert (cache.hit_bytes, cache.miss_bytes) == (3 * 3 * PAGE, 2 * 3 * PAGE)
    assert (cache.used_bytes, len(scene.cached_files())) == (3 * PAGE, 1)
    assert (scene.reader.cold_count, scene.reader.cold_bytes) == (2, 2 * 3 * PAGE)


def test_with_one_read_each_byte_comes_from_the_log_once() -> None:
    scene = CacheScene(min_reads=1)
    for _ in range(3):
        for position in range(0, 16 * PAGE, 1000):
            scene.read(position, min(1000, 16 * PAGE - position))
    assert scene.slow_bytes == 16 * PAGE
    assert b"".join(map(as_bytes, scene.seen)) == 3 * scene.content(0, 16 * PAGE)


def as_bytes(content: bytes | HeadwaterError) -> bytes:
    assert isinstance(content, bytes), content
    return content


def test_two_consumers_of_one_read_from_the_log_admit_it() -> None:
    scene = CacheScene(is_inline=False)
    scene.executor.finish()
    scene.read(0, PAGE)
    scene.read(0, PAGE)
    scene.executor.finish()
    assert (scene.slow_bytes, scene.cache.used_bytes) == (PAGE, PAGE)


def test_range_of_several_reads_is_served_in_one_piece() -> None:
    scene = CacheScene(min_reads=1)
    for position in (2 * PAGE, 0, PAGE):
        scene.read(position, PAGE + 5)
    scene.read(17, 3 * PAGE - 30)
    assert scene.seen[-1] == scene.content(17, 3 * PAGE - 30)
    assert len(scene.hits) == 1
    assert scene.slow_bytes == scene.cache.used_bytes + 2 * 5, "only what overlapped is read again"


def test_truncated_log_is_read_from_its_disk() -> None:
    scene = CacheScene(min_reads=1)
    scene.read(0, PAGE)
    file = scene.segments[0].file()
    file.truncate(10)
    file.write([b"!" * PAGE], 10)
    scene.read(0, PAGE, generation=1)
    scene.read(0, PAGE, generation=1)
    assert scene.seen[1:] == [scene.content(0, PAGE)] * 2
    assert (len(scene.hits), scene.cache.used_bytes) == (1, PAGE), "the old state is dropped"


def test_removed_segment_leaves_the_cache_at_once() -> None:
    scene = CacheScene(min_reads=1)
    scene.read(0, PAGE)
    scene.read(0, PAGE, file=scene.segments[1])
    scene.segments[0].forget()
    assert (scene.cache.used_bytes, len(scene.cached_files())) == (PAGE, 1)


def test_removed_segment_stays_readable_for_those_who_are_sent_it() -> None:
    scene = CacheScene(min_reads=1)
    scene.read(0, PAGE)
    expected = scene.content(0, PAGE)
    held: list[CachedRange] = []
    scene.cache.read(FileRange(scene.segments[0], 0, PAGE), 0, held.append, lambda: None)
    scene.segments[0].forget()
    assert held[0].read() == expected
    assert scene.cache.used_bytes == PAGE
    held[0].release()
    assert (scene.cache.used_bytes, scene.cached_files()) == (0, [])


def test_changed_bytes_are_not_served(caplog: pytest.LogCaptureFixture) -> None:
    scene = CacheScene(min_reads=1)
    scene.read(0, PAGE)
    name = FAST / scene.cached_files()[0]
    scene.fast.open(name).write([b"!"], 2000)
    scene.read(0, PAGE)
    assert scene.seen == [scene.content(0, PAGE)] * 2
    assert "differ from what was written" in caplog.text
    assert not scene.cache.is_available


def break_disk(scene: CacheScene) -> None:
    scene.fast.break_under(FAST)


def fill_disk(scene: CacheScene) -> None:
    scene.fast.fill()


def remove_directory(scene: CacheScene) -> None:
    scene.fast.remove_tree(FAST)


def unmount_disk(scene: CacheScene) -> None:
    scene.fast.remove_tree(FAST.parent)


@pytest.mark.parametrize("fault", [break_disk, fill_disk, unmount_disk])
def test_failed_cache_disk_is_logged_once_and_consumers_are_served_from_the_log(
    fault: Callable[[CacheScene], None], caplog: pytest.LogCaptureFixture
) -> None:
    scene = CacheScene(min_reads=1)
    scene.read(0, PAGE)
    fault(scene)
    caplog.set_level(logging.INFO)
    for number in range(12):
        scene.now_ms += RETRY_MS // 8
        scene.read(number % 8 * PAGE, 2 * PAGE, file=scene.segments[number % 2])
    expected = [
        scene.segments[number % 2].file().read(2 * PAGE, number % 8 * PAGE) for number in range(12)
    ]
    assert scene.seen[1:] == expected
    failures = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(failures) == 1
    assert failures[0].getMessage().startswith("Cache directory failed; consumers are served from")


def test_failed_cache_begins_again_empty_when_its_disk_is_repaired() -> None:
    scene = CacheScene(min_reads=1)
    scene.read(0, PAGE)
    scene.fast.break_under(FAST)
    scene.read(0, PAGE)
    scene.fast.repair(FAST)
    scene.read(0, PAGE)
    assert not scene.cache.is_available
    scene.now_ms += RETRY_MS
    for _ in range(3):
        scene.read(0, PAGE)
    assert scene.cache.is_available
    assert scene.cache.hit_bytes == PAGE
    assert len(scene.cached_files()) == 1
    assert scene.seen == [scene.content(0, PAGE)] * 6


def test_removed_directory_is_made_again() -> None:
    scene = CacheScene(min_reads=1)
    remove_directory(scene)
    scene.read(0, PAGE)
    assert not scene.cache.is_available
    scene.now_ms += RETRY_MS
    for _ in range(3):
        scene.read(0, PAGE)
    assert (scene.cache.is_available, len(scene.hits)) == (True, 1)


def test_cache_without_descriptors_keeps_nothing_and_stays_available() -> None:
    scene = CacheScene(min_reads=1)
    scene.fast.is_out_of_descriptors = True
    scene.read(0, PAGE)
    assert (scene.cache.is_available, scene.cache.used_bytes) == (True, 0)


def test_full_executor_leaves_the_read_to_the_log() -> None:
    scene = CacheScene(min_reads=1)
    scene.read(0, PAGE)
    held = HeldExecutor(random.Random(1))
    held.is_full = True
    scene.cache._reader = held
    scene.read(0, PAGE)
    assert scene.seen == [scene.content(0, PAGE)] * 2
    assert scene.slow_bytes == 2 * PAGE


def test_files_of_an_earlier_process_are_removed_and_others_stay() -> None:
    scene = CacheScene(min_reads=1)
    scene.read(0, PAGE)
    scene.fast.open(FAST / "notes.txt", create=True)
    scene.fast.process_crash()
    scene.begin()
    assert scene.fast.names(FAST) == ["notes.txt"]


def test_right_bytes_are_served_under_truncations_faults_and_crashes() -> None:
    hit_counts = [run_with_faults(seed) for seed in range(80)]
    assert sum(map(bool, hit_counts)) > 60, "most seeds reach the cache"


def run_with_faults(seed: int) -> int:
    """Any interleaving of jobs, truncations, deletions, disk faults and power cuts.

    Returns the number of hits.
    """
    scene = CacheScene(seed=seed, min_reads=1 + seed % 2, size_bytes=24 * PAGE, is_inline=False)
    rng = random.Random(seed)
    generations = [0, 0]
    hit_count = 0

    def read() -> None:
        number = rng.randrange(2)
        file, generation = scene.segments[number], generations[number]
        position = rng.randrange(12) * PAGE
        length = min(rng.choice([500, PAGE, 3 * PAGE]), file.file().size() - position)
        if length <= 0:
            return
        expected = file.file().read(length, position)

        def deliver(content: FileRange | CachedRange | Buffer) -> None:
            nonlocal hit_count
            if isinstance(content, CachedRange):
                # A disk that fails now closes the connection.
                with suppress(StorageError):
                    assert content.read() == expected
                    hit_count += 1
                scene.executor.submit(lambda: None, then=partial(sent, content), on_error=fail)
            elif (file, generation) == (scene.segments[number], generations[number]):
                assert not isinstance(content, FileRange)
                assert content == expected

        wanted = FileRange(file, position, length)
        scene.reader.read(wanted, deliver, fail, generation=generation)

    def sent(content: CachedRange, _: object) -> None:
        content.release()

    def fail(error: HeadwaterError) -> None:
        raise AssertionError(error)

    def truncate() -> None:
        number = rng.randrange(2)
        if scene.segments[number].is_held:
            return
        generations[number] += 1
        file = scene.segments[number].file()
        size = rng.randrange(file.size() + 1)
        file.truncate(size)
        file.write([rng.randbytes(16 * PAGE - size)], size)

    def replace() -> None:
        """Compaction: another file of the same name, with other bytes."""
        number = rng.randrange(2)
        old = scene.segments[number]
        scene.slow.remove(old.path)
        old.forget()
        scene.segments[number] = scene._segment(str(old.path))
        generations[number] = 0

    def crash() -> None:
        scene.executor.crash()
        scene.fast.power_cut()
        for file in scene.segments:
            file.on_forget = None
        scene.slow.process_crash()
        scene.files = OpenFiles(scene.slow, 8)
        scene.segments = [scene.files.open(each.path) for each in scene.segments]
        scene.begin()

    def disturb() -> None:
        step = scene.fast.step_count + rng.randrange(1, 9)
        faults: list[Callable[[], None]] = [
            scene.fast.fail_next_sync,
            scene.fast.fail_next_write,
            scene.fast.fail_next_read,
            partial(scene.fast.fill, rng.randrange(20) * PAGE),
            scene.fast.make_room,
            scene.fast.make_room,
            partial(scene.fast.crash_at_step, step),
        ]
        rng.choice(faults)()

    for _ in range(600):
        action = rng.choices(
            [read, scene.executor.step, truncate, replace, disturb], [40, 100, 2, 1, 2]
        )[0]
        scene.now_ms += RETRY_MS // 20
        try:
            action()
        except PowerCut:
            crash()
        assert scene.cache.used_bytes <= 24 * PAGE
    scene.fast.crash_at_step(None)
    scene.executor.finish()
    return hit_count


def test_sent_ranges_do_not_stay_in_the_page_cache(tmp_path: Path) -> None:
    """On a real disk: the range is resident while it is sent, and is not afterwards."""
    need_cachestat(tmp_path)
    disk: Disk = OsDisk()
    files = OpenFiles(disk, 4)
    file = files.open(tmp_path / "0.log", create=True)
    content = random.Random(1).randbytes(64 * PAGE)
    file.file().write([content], 0)
    cache = SegmentCache(
        disk,
        tmp_path / "cache",
        limits=CacheLimits(size_bytes=1 << 26, min_reads=1),
        reader=InlineExecutor(),
        writer=InlineExecutor(),
        drop_pages=drop_pages,
        steady_ms=lambda: 0,
    )
    cache.start()
    wanted = FileRange(file, 0, len(content))
    cache.keep(wanted, 0, content, readers=1)
    held: list[CachedRange] = []
    assert cache.read(wanted, 0, held.append, lambda: None)
    (path,) = (tmp_path / "cache").glob("*" + SUFFIX)
    cached = OsDisk().open(path)
    assert held[0].read() == content
    assert held[0].fileno() >= 0
    assert cached_pages(cached) == 64
    held[0].release()
    assert cached_pages(cached) == 0
    cached.close()
    cache.close()
    files.close()


def test_unusable_directory_does_not_stop_the_start(caplog: pytest.LogCaptureFixture) -> None:
    scene = CacheScene()
    scene.fast.remove_tree(FAST)
    scene.fast.open(FAST, create=True)
    scene.begin()
    scene.read(0, PAGE)
    assert scene.seen == [scene.content(0, PAGE)]
    assert not any(isinstance(each, StorageError) for each in scene.seen)
    assert "Cache directory failed" in caplog.text
