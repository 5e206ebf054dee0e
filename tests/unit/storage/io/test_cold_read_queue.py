"""Queues of cold reads: limits, turns of consumers, and shared reads."""

import random
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.common.exceptions import HeadwaterError, StorageError
from headwater.records.batch_header import Buffer
from headwater.storage.io.cold_read import read_buffered
from headwater.storage.io.cold_read_queue import ColdReadQueue, ColdReadWaiter, QueuedRead
from headwater.storage.io.disk import File
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.file_range_reader import ColdReadLimits, FileRangeReader
from headwater.storage.io.open_files import CachedFile, OpenFiles
from headwater.storage.io.segment_cache import CachedRange
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk

SLOW, FAST = PurePath("/slow/orders-0/log"), PurePath("/fast/orders-1/log")
CONTENT = random.Random(2).randbytes(1000)


class NothingResident:
    """Every range is cold."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return 0


class ColdReadScene:
    """A file in each of two log directories; jobs run on demand."""

    def __init__(self, limits: ColdReadLimits) -> None:
        self.disk = LossyDisk(random.Random(1))
        self.cache = OpenFiles(self.disk, 4)
        self.slow, self.fast = (self._file(path) for path in (SLOW, FAST))
        self.executor = HeldExecutor(random.Random(3))
        self.jobs = 0
        self.reader = FileRangeReader(NothingResident(), self.executor, self._read, limits=limits)
        self.seen: list[tuple[object, bytes | HeadwaterError]] = []

    def _file(self, path: PurePath) -> CachedFile:
        self.disk.make_directory(path.parent)
        file = self.cache.open(path, create=True)
        file.file().write([CONTENT], 0)
        return file

    def _read(self, file: File, length: int, position: int) -> Buffer:
        self.jobs += 1
        return read_buffered(file, length, position)

    def read(
        self,
        consumer: str,
        position: int,
        length: int,
        *,
        file: CachedFile | None = None,
        generation: int | None = None,
    ) -> None:
        def deliver(content: FileRange | CachedRange | Buffer) -> None:
            assert not isinstance(content, FileRange | CachedRange)
            self.seen.append((consumer, bytes(content)))

        self.reader.read(
            FileRange(self.slow if file is None else file, position, length),
            deliver,
            lambda error: self.seen.append((consumer, error)),
            consumer=consumer,
            generation=generation,
        )


def test_a_slow_directory_does_not_hold_up_reads_of_another() -> None:
    scene = ColdReadScene(
        ColdReadLimits(total_bytes=2_000, reads_per_directory=2, directory_count=2)
    )
    for number in range(10):
        scene.read("lagging", number, 900)
    scene.read("tailing", 0, 10, file=scene.fast)
    slow, fast = scene.reader.queues.values()
    assert (slow.reads_under_way, slow.waiting_count) == (1, 9), "1000 bytes are its part"
    assert (fast.reads_under_way, fast.waiting_count) == (1, 0)
    assert list(scene.reader.queues) == [PurePath("/slow"), PurePath("/fast")]
    scene.executor.finish()
    assert len(scene.seen) == 11
    assert (scene.reader.cold_reads_under_way, scene.reader.cold_bytes_under_way) == (0, 0)


def test_at_most_the_limit_of_reads_is_in_progress_in_a_directory() -> None:
    scene = ColdReadScene(ColdReadLimits(total_bytes=2_000, reads_per_directory=3))
    for number in range(10):
        scene.read("consumer", number, 1)
    most = 0
    while scene.executor.step():
        most = max(most, scene.reader.cold_reads_under_way)
    assert most == 3
    assert len(scene.seen) == 10


def test_consumers_take_turns() -> None:
    scene = ColdReadScene(ColdReadLimits(total_bytes=2_000, reads_per_directory=1))
    for number in range(5):
        scene.read("many partitions", number, 1)
    scene.read("second", 0, 1)
    scene.read("third", 0, 1)
    scene.executor.finish()
    assert [consumer for consumer, _ in scene.seen] == [
        "many partitions",
        "many partitions",
        "second",
        "third",
        "many partitions",
        "many partitions",
        "many partitions",
    ]


def test_consumers_of_the_same_range_share_one_read() -> None:
    scene = ColdReadScene(ColdReadLimits(total_bytes=2_000, reads_per_directory=1))
    scene.read("first", 0, 100, generation=4)
    scene.read("while it is read", 0, 100, generation=4)
    scene.read("queued", 200, 100, generation=4)
    scene.read("shorter", 200, 50, generation=4)
    scene.executor.finish()
    assert scene.seen == [
        ("first", CONTENT[:100]),
        ("while it is read", CONTENT[:100]),
        ("queued", CONTENT[200:300]),
        ("shorter", CONTENT[200:250]),
    ]
    assert (scene.jobs, scene.reader.merged_count) == (2, 2)
    scene.read("later", 0, 100, generation=4)
    scene.executor.finish()
    assert scene.jobs == 3, "what was delivered is not kept"


def test_a_longer_range_of_the_same_position_is_read_by_itself() -> None:
    scene = ColdReadScene(ColdReadLimits(total_bytes=2_000))
    scene.read("short", 0, 100, generation=0)
    scene.read("long", 0, 101, generation=0)
    scene.read("joins the long one", 0, 101, generation=0)
    scene.executor.finish()
    assert sorted(scene.seen) == [
        ("joins the long one", CONTENT[:101]),
        ("long", CONTENT[:101]),
        ("short", CONTENT[:100]),
    ]
    assert scene.jobs == 2


def test_a_read_from_before_a_truncation_is_not_shared() -> None:
    """Other bytes may be at the same positions by now."""
    scene = ColdReadScene(ColdReadLimits(total_bytes=2_000))
    scene.read("before", 0, 100, generation=0)
    scene.executor.work()
    scene.slow.file().write([b"!" * 100], 0)
    scene.read("after", 0, 100, generation=1)
    scene.executor.finish()
    assert sorted(scene.seen) == [("after", b"!" * 100), ("before", CONTENT[:100])]


def test_without_a_generation_nothing_is_shared() -> None:
    scene = ColdReadScene(ColdReadLimits(total_bytes=2_000))
    for consumer in ("one", "two"):
        scene.read(consumer, 0, 100)
    scene.executor.finish()
    assert scene.jobs == 2


def test_failure_of_a_shared_read_fails_all_who_wait() -> None:
    scene = ColdReadScene(ColdReadLimits(total_bytes=2_000))
    for consumer in ("one", "two"):
        scene.read(consumer, 0, 100, generation=0)
    scene.disk.fail_next_read("log")
    scene.executor.finish()
    assert [consumer for consumer, _ in scene.seen] == ["one", "two"]
    assert all(isinstance(outcome, StorageError) for _, outcome in scene.seen)
    assert not scene.slow.is_held


def test_exception_of_one_consumer_leaves_the_others_their_bytes() -> None:
    scene = ColdReadScene(ColdReadLimits(total_bytes=2_000))

    def mistake(_: object) -> None:
        raise ZeroDivisionError

    wanted = FileRange(scene.slow, 0, 100)
    scene.reader.read(wanted, mistake, mistake, consumer="one", generation=0)
    scene.read("two", 0, 100, generation=0)
    with pytest.raises(ZeroDivisionError):
        scene.executor.finish()
    assert scene.seen == [("two", CONTENT[:100])]


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            st.integers(0, 3),
            st.integers(0, 4),
            st.integers(1, 40),
            st.sampled_from([None, 0, 1]),
        ),
        st.tuples(st.just("end"), st.integers(0, 9)),
    ),
    max_size=60,
)


@given(STEPS)
def test_every_waiter_is_served_once_with_its_range_within_the_limits(
    steps: list[tuple[object, ...]],
) -> None:
    queue = ColdReadQueue(3, 60)
    file = OpenFiles(LossyDisk(random.Random(1)), 2).open(PurePath("/a/b-0/log"))
    wanted: list[tuple[int, int, object]] = []
    served: list[tuple[int, int, object]] = []
    under_way: list[QueuedRead] = []

    def end(read: QueuedRead) -> None:
        queue.ended(read)
        for waiter in read.waiters:
            assert waiter.length <= read.length
            served.append((read.range.position, waiter.length, read.generation))

    def start() -> None:
        while (read := queue.take()) is not None:
            under_way.append(read)
        total = sum(read.length for read in under_way)
        assert (len(under_way), total) == (queue.reads_under_way, queue.bytes_under_way)
        assert len(under_way) == 1 or (len(under_way) <= 3 and total <= 60) or not under_way
        assert under_way or not queue.waiting_count, "something runs while something waits"

    for step in steps:
        match step:
            case ("add", int(consumer), int(position), int(length), generation):
                waiter = ColdReadWaiter(length=length, deliver=lambda _: None, fail=lambda _: None)
                assert generation is None or isinstance(generation, int)
                queue.add(
                    FileRange(file, position, length),
                    waiter,
                    consumer=consumer,
                    generation=generation,
                )
                wanted.append((position, length, generation))
            case ("end", int(index)) if under_way:
                end(under_way.pop(index % len(under_way)))
        start()
    while under_way:
        end(under_way.pop())
        start()
    assert sorted(served, key=str) == sorted(wanted, key=str)
    assert queue.waiting_count == 0
