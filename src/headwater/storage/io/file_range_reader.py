"""Hot and cold reads behind one call.

A range that is in the page cache all of it is delivered as it is, for sendfile on the loop, or if
it is small as bytes: for the few records that somebody reads who follows the end of a log, a copy
is cheaper than the system calls around a sendfile. Any other is read by a job of the executor, past
the cache, and delivered as bytes. A range that is resident in part counts as cold: one missing page
would block the loop as surely as a hundred. Its resident pages stay where they are.

What a reader would get wrong: a delivered `FileRange` is *held*. Whoever gets it must call
`release` when the last byte is sent or the connection is gone. Bytes need no release. And either
may hold less than was asked for, when the file was truncated or removed meanwhile: sendfile then
returns zero, and the bytes are fewer.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import (
    HeadwaterError,
    StorageError,
    TooManyOpenFiles,
    TooMuchWork,
)
from headwater.records.batch_header import Buffer
from headwater.storage.io.cold_read import ColdRead
from headwater.storage.io.executor import Executor
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.page_cache_residency import Glance, Residency, pages_in

SMALL_BYTES: Final = 16_384
_ANSWERS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A cold read, waiting or under way."""

    range: FileRange
    deliver: Callable[[FileRange | Buffer], None]
    fail: Callable[[HeadwaterError], None]


class FileRangeReader:
    """Reads ranges; for the loop's thread only.

    At most `cold_limit_reads` cold reads are under way, of `cold_limit_bytes` together, except
    that one which is larger than that goes alone. Further ones wait their turn in order. They
    hold no descriptor while they wait, so many of them cannot exhaust the process.
    """

    def __init__(
        self,
        residency: Residency,
        executor: Executor,
        cold_read: ColdRead,
        *,
        cold_limit_bytes: int,
        cold_limit_reads: int = 64,
        glance: Glance | None = None,
    ) -> None:
        self._residency = residency
        self._glance = glance
        self._executor = executor
        self._cold_read = cold_read
        self._cold_limit_bytes = cold_limit_bytes
        self._cold_limit_reads = cold_limit_reads
        self._waiting: deque[_Read] = deque()
        self.cold_reads_under_way = 0
        self.cold_bytes_under_way = 0
        self.hot_count = 0
        self.cold_count = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def answer_limit_bytes(self) -> int:
        """What one answer should have of cold bytes, which stay in memory until they are sent."""
        return self._cold_limit_bytes // _ANSWERS_AT_ONCE

    def is_hot(self, range: FileRange) -> bool:  # noqa: A002, the word of the room
        """Whether all of it is in the page cache now. A file that fails is not."""
        try:
            file = range.file.file()
            resident = self._residency.resident_pages(file, range.position, range.length)
        except (StorageError, TooManyOpenFiles):
            return False
        return resident >= pages_in(range.position, range.length)

    def read(
        self,
        range: FileRange,  # noqa: A002, the word of the room
        deliver: Callable[[FileRange | Buffer], None],
        fail: Callable[[HeadwaterError], None],
    ) -> bool:
        """Deliver the range or fail, one of the two and once; at once when it is hot.

        The answer is whether it was.
        """
        if range.length <= SMALL_BYTES and (content := self._glance_at(range)) is not None:
            self.hot_count += 1
            deliver(content)
            return True
        if self.is_hot(range):
            self.hot_count += 1
            range.file.hold()
            deliver(range)
            return True
        self.cold_count += 1
        self._waiting.append(_Read(range=range, deliver=deliver, fail=fail))
        self._start_what_fits()
        return False

    def _glance_at(self, range: FileRange) -> Buffer | None:  # noqa: A002, the word of the room
        if self._glance is None:
            return None
        try:
            return self._glance(range.file.file(), range.length, range.position)
        except (StorageError, TooManyOpenFiles):
            return None

    def _start_what_fits(self) -> None:
        while self._waiting and self._fits(self._waiting[0].range.length):
            self._start(self._waiting.popleft())

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
            # Retention or a truncation took it, or compaction put another in its place. Only a
            # new look at the log can tell, so the consumer gets nothing and asks again; told that
            # its offset is gone, it would jump to an end of the log and skip what is there.
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
                self._start_what_fits()

        def otherwise(error: StorageError) -> None:
            self._end(read)
            try:
                read.fail(error)
            finally:
                self._start_what_fits()

        self.cold_reads_under_way += 1
        self.cold_bytes_under_way += length
        try:
            self._executor.submit(
                lambda: self._cold_read(file, length, position), then=then, otherwise=otherwise
            )
        except TooMuchWork as refusal:
            self._end(read)
            read.fail(refusal)

    def _end(self, read: _Read) -> None:
        self.cold_reads_under_way -= 1
        self.cold_bytes_under_way -= read.range.length
        read.range.release()
