"""Read file ranges: hot ones with sendfile, cold ones in the executor.

A range that is completely in the page cache is delivered as it is, for sendfile on the event loop;
a small one is delivered as bytes, because for the few records that a tailing consumer reads, a copy
is cheaper than the system calls around a sendfile. Any other range is read by an executor job past
the page cache and delivered as bytes, unless the segment cache has it. A partly resident range
counts as cold: one missing page blocks the loop as surely as a hundred. Its resident pages stay
where they are.

Note: a delivered `FileRange` or `CachedRange` is *held*. The receiver must call `release` after the
last byte is sent or the connection has closed. Bytes need no release. Both may be shorter than
requested if the file was truncated or removed meanwhile: sendfile then returns zero, and the bytes
are fewer.
"""

from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Final

from headwater.common.exceptions import (
    HeadwaterError,
    QueueFull,
    StorageError,
    TooManyOpenFiles,
)
from headwater.records.batch_header import Buffer
from headwater.storage.io.cold_read import ColdRead
from headwater.storage.io.cold_read_queue import ColdReadQueue, ColdReadWaiter, QueuedRead
from headwater.storage.io.disk import File
from headwater.storage.io.executor import Executor
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.page_cache_residency import PageCacheRead, Residency, pages_in
from headwater.storage.io.segment_cache import CachedRange, SegmentCache

SMALL_BYTES: Final = 16_384
_CONCURRENT_RESPONSES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdReadLimits:
    """Bounds of cold reads; log directories have equal parts of the bytes."""

    total_bytes: int
    reads_per_directory: int = 64
    directory_count: int = 1


class FileRangeReader:
    """Reads ranges; used only by the event loop's thread.

    Cold reads queue by log directory (`cold_read_queue`). Queued reads hold no descriptor, so many
    of them cannot exhaust the process's limit.
    """

    def __init__(
        self,
        residency: Residency,
        executor: Executor,
        cold_read: ColdRead,
        *,
        limits: ColdReadLimits,
        page_cache_read: PageCacheRead | None = None,
        cache: SegmentCache | None = None,
    ) -> None:
        self._residency = residency
        self._page_cache_read = page_cache_read
        self._executor = executor
        self._cold_read = cold_read
        self._limits = limits
        self.cache = cache
        # By log directory, from its first cold read on.
        self.queues: dict[PurePath, ColdReadQueue] = {}
        self.hot_count = 0
        self.hot_bytes = 0
        self.cold_count = 0
        self.cold_bytes = 0

    @property
    def waiting_count(self) -> int:
        return sum(queue.waiting_count for queue in self.queues.values())

    @property
    def cold_bytes_under_way(self) -> int:
        return sum(queue.bytes_under_way for queue in self.queues.values())

    @property
    def cold_reads_under_way(self) -> int:
        return sum(queue.reads_under_way for queue in self.queues.values())

    @property
    def merged_count(self) -> int:
        """Number of reads that were answered with the bytes of another one."""
        return sum(queue.merged_count for queue in self.queues.values())

    @property
    def answer_limit_bytes(self) -> int:
        """Limit of cold bytes per response; they stay in memory until they are sent."""
        return self._limits.total_bytes // _CONCURRENT_RESPONSES

    def is_hot(self, range: FileRange) -> bool:  # noqa: A002, Kafka's word
        """Return whether the whole range is in the page cache; not if it fails."""
        try:
            file = range.file.file()
            resident = self._residency.resident_pages(file, range.position, range.length)
        except (StorageError, TooManyOpenFiles):
            return False
        return resident >= pages_in(range.position, range.length)

    def read(
        self,
        range: FileRange,  # noqa: A002, Kafka's word
        deliver: Callable[[FileRange | CachedRange | Buffer], None],
        fail: Callable[[HeadwaterError], None],
        *,
        consumer: Hashable = None,
        generation: int | None = None,
    ) -> bool:
        """Call `deliver` or `fail` exactly once; immediately when the range is hot.

        Consumers take turns. With a generation, the truncation count of the log, the read may be
        shared with other consumers, and served from the segment cache. Returns whether the range
        was hot.
        """
        if range.length <= SMALL_BYTES and (content := self._read_if_resident(range)) is not None:
            self.hot_count += 1
            self.hot_bytes += range.length
            deliver(content)
            return True
        if self.is_hot(range):
            self.hot_count += 1
            self.hot_bytes += range.length
            range.file.hold()
            deliver(range)
            return True
        waiter = ColdReadWaiter(length=range.length, deliver=deliver, fail=fail)
        read = partial(self._queue_read, range, waiter, consumer, generation)
        cache = self.cache
        if generation is None or cache is None or not cache.read(range, generation, deliver, read):
            read()
        return False

    def _queue_read(
        self,
        range: FileRange,  # noqa: A002, Kafka's word
        waiter: ColdReadWaiter,
        consumer: Hashable,
        generation: int | None,
    ) -> None:
        self.cold_count += 1
        self.cold_bytes += range.length
        queue = self._queue_of(range.file.path)
        queue.add(range, waiter, consumer=consumer, generation=generation)
        self._start_queued(queue)

    def _queue_of(self, path: PurePath) -> ColdReadQueue:
        # A log directory has a directory for each partition, with its files.
        directory = path.parent.parent
        queue = self.queues.get(directory)
        if queue is None:
            limits = self._limits
            queue = self.queues[directory] = ColdReadQueue(
                limits.reads_per_directory, limits.total_bytes // limits.directory_count
            )
        return queue

    def _read_if_resident(self, range: FileRange) -> Buffer | None:  # noqa: A002, Kafka's word
        if self._page_cache_read is None:
            return None
        try:
            return self._page_cache_read(range.file.file(), range.length, range.position)
        except (StorageError, TooManyOpenFiles):
            return None

    def _start_queued(self, queue: ColdReadQueue) -> None:
        while (read := queue.take()) is not None:
            self._start(queue, read)

    def _start(self, queue: ColdReadQueue, read: QueuedRead) -> None:
        position, length = read.range.position, read.length
        if read.range.file.is_forgotten:
            # Retention or truncation deleted the file, or compaction replaced it. The consumer gets
            # an empty response and fetches again, which looks at the current log.
            # OFFSET_OUT_OF_RANGE would make it reset its position and skip records.
            queue.ended(read)
            _deliver(read, b"")
            return
        try:
            file = read.range.file.hold()
        except (StorageError, TooManyOpenFiles) as error:
            queue.ended(read)
            _fail(read, error)
            return

        def then(content: Buffer) -> None:
            queue.ended(read)
            read.range.release()
            try:
                _deliver(read, content)
            finally:
                self._start_queued(queue)
                if self.cache is not None and read.generation is not None:
                    self.cache.keep(read.range, read.generation, content, readers=len(read.waiters))

        def on_error(error: StorageError) -> None:
            queue.ended(read)
            read.range.release()
            try:
                _fail(read, error)
            finally:
                self._start_queued(queue)

        try:
            self._executor.submit(
                lambda: _read(self._cold_read, file, length, position),
                then=then,
                on_error=on_error,
            )
        except QueueFull as refusal:
            queue.ended(read)
            read.range.release()
            _fail(read, refusal)


def _read(cold_read: ColdRead, file: File, length: int, position: int) -> Buffer:
    """Read a range; every failure is a `StorageError`.

    Without that, the read would never leave its queue.
    """
    try:
        return cold_read(file, length, position)
    except (OSError, MemoryError) as error:
        raise StorageError(f"cannot read {length} bytes at {position}: {error!r}") from error


def _deliver(read: QueuedRead, content: Buffer) -> None:
    with ExitStack() as all_of_them:
        # In reverse, as a stack runs its callbacks; all run, whatever one of them raises.
        for waiter in reversed(read.waiters):
            part = (
                content if waiter.length >= len(content) else memoryview(content)[: waiter.length]
            )
            all_of_them.callback(waiter.deliver, part)


def _fail(read: QueuedRead, error: HeadwaterError) -> None:
    with ExitStack() as all_of_them:
        for waiter in reversed(read.waiters):
            all_of_them.callback(waiter.fail, error)
