"""Read file ranges: hot ones with sendfile, cold ones in the executor.

A range that is completely in the page cache is delivered as it is, for sendfile on the event loop;
a small one is delivered as bytes, because for the few records that a tailing consumer reads, a copy
is cheaper than the system calls around a sendfile. Any other range is read by an executor job past
the page cache and delivered as bytes. A partly resident range counts as cold: one missing page
blocks the loop as surely as a hundred. Its resident pages stay where they are.

Note: a delivered `FileRange` is *held*. The receiver must call `release` after the last byte is
sent or the connection has closed. Bytes need no release. Both may be shorter than requested if the
file was truncated or removed meanwhile: sendfile then returns zero, and the bytes are fewer.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import (
    HeadwaterError,
    QueueFull,
    StorageError,
    TooManyOpenFiles,
)
from headwater.records.batch_header import Buffer
from headwater.storage.io.cold_read import ColdRead
from headwater.storage.io.executor import Executor
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.page_cache_residency import PageCacheRead, Residency, pages_in

SMALL_BYTES: Final = 16_384
_CONCURRENT_RESPONSES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Cold read, queued or in progress."""

    range: FileRange
    deliver: Callable[[FileRange | Buffer], None]
    fail: Callable[[HeadwaterError], None]


class FileRangeReader:
    """Reads ranges; used only by the event loop's thread.

    At most `cold_limit_reads` cold reads of `cold_limit_bytes` in total are in progress, except
    that a larger one runs alone. Further reads queue in order. Queued reads hold no descriptor, so
    many of them cannot exhaust the process's limit.
    """

    def __init__(
        self,
        residency: Residency,
        executor: Executor,
        cold_read: ColdRead,
        *,
        cold_limit_bytes: int,
        cold_limit_reads: int = 64,
        page_cache_read: PageCacheRead | None = None,
    ) -> None:
        self._residency = residency
        self._page_cache_read = page_cache_read
        self._executor = executor
        self._cold_read = cold_read
        self._cold_limit_bytes = cold_limit_bytes
        self._cold_limit_reads = cold_limit_reads
        self._queued: deque[_Read] = deque()
        self.cold_reads_under_way = 0
        self.cold_bytes_under_way = 0
        self.hot_count = 0
        self.hot_bytes = 0
        self.cold_count = 0
        self.cold_bytes = 0

    @property
    def waiting_count(self) -> int:
        return len(self._queued)

    @property
    def answer_limit_bytes(self) -> int:
        """Limit of cold bytes per response; they stay in memory until they are sent."""
        return self._cold_limit_bytes // _CONCURRENT_RESPONSES

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
        deliver: Callable[[FileRange | Buffer], None],
        fail: Callable[[HeadwaterError], None],
    ) -> bool:
        """Call `deliver` or `fail` exactly once; immediately when the range is hot.

        Returns whether the range was hot.
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
        self.cold_count += 1
        self.cold_bytes += range.length
        self._queued.append(_Read(range=range, deliver=deliver, fail=fail))
        self._start_queued()
        return False

    def _read_if_resident(self, range: FileRange) -> Buffer | None:  # noqa: A002, Kafka's word
        if self._page_cache_read is None:
            return None
        try:
            return self._page_cache_read(range.file.file(), range.length, range.position)
        except (StorageError, TooManyOpenFiles):
            return None

    def _start_queued(self) -> None:
        while self._queued and self._fits(self._queued[0].range.length):
            self._start(self._queued.popleft())

    def _fits(self, length: int) -> bool:
        if self.cold_reads_under_way == 0:
            return True
        total = self.cold_bytes_under_way + length
        return (
            total <= self._cold_limit_bytes and self.cold_reads_under_way < self._cold_limit_reads
        )

    def _start(self, read: _Read) -> None:
        position, length = read.range.position, read.range.length
        if read.range.file.is_forgotten:
            # Retention or truncation deleted the file, or compaction replaced it. The consumer gets
            # an empty response and fetches again, which looks at the current log.
            # OFFSET_OUT_OF_RANGE would make it reset its position and skip records.
            read.deliver(b"")
            return
        try:
            file = read.range.file.hold()
        except (StorageError, TooManyOpenFiles) as error:
            read.fail(error)
            return

        def then(content: Buffer) -> None:
            self._end(read)
            try:
                read.deliver(content)
            finally:
                self._start_queued()

        def on_error(error: StorageError) -> None:
            self._end(read)
            try:
                read.fail(error)
            finally:
                self._start_queued()

        self.cold_reads_under_way += 1
        self.cold_bytes_under_way += length
        try:
            self._executor.submit(
                lambda: self._cold_read(file, length, position), then=then, on_error=on_error
            )
        except QueueFull as refusal:
            self._end(read)
            read.fail(refusal)

    def _end(self, read: _Read) -> None:
        self.cold_reads_under_way -= 1
        self.cold_bytes_under_way -= read.range.length
        read.range.release()
