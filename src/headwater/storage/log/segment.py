"""One segment of a log: a run of batches in a file, with its sparse indexes.

A segment is cheap to hold and opens nothing by itself: its files open on first use and may be
closed again behind its back by the bounded cache. What it knows of its content (largest timestamp,
first timestamp) it learns from its indexes when first asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Protocol

from headwater.common.exceptions import BatchError, CorruptBatch
from headwater.common.ids import NO_TIMESTAMP
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.kernel import sound_run
from headwater.storage.index.offset_index import OffsetIndex
from headwater.storage.index.sparse_indexes import AppendedBatch, SparseIndexes
from headwater.storage.index.time_index import TimeIndex
from headwater.storage.index.transaction_index import TransactionIndex
from headwater.storage.io.open_files import CachedFile
from headwater.storage.log.batch_walk import PlacedHeader, header_at, walk_headers, walk_producers
from headwater.storage.log.recent_batches import RecentBatches
from headwater.storage.log.segment_factory import SegmentFactory
from headwater.storage.log.segment_files import LOG, TRANSACTION_INDEX, path_of
from headwater.storage.log.sequential_read_hints import SequentialReadHints

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

# What is read at once when a whole segment is checked.
_CHUNK_BYTES = 4 << 20


class BatchChecker(Protocol):
    """Says which batches of a doubtful segment stay."""

    next_offset: int
    """The lowest offset at which the next batch may begin."""

    @property
    def leader_epoch(self) -> int:
        """A batch of another epoch needs a closer look."""

    def accept(self, header: BatchHeader, content: memoryview) -> None:
        """Look at a batch closely; raise a `BatchError` to refuse it."""


class LogSegment:
    """The batches from `base_offset` up to the next segment's base."""

    __slots__ = (
        "_expected",
        "_first_timestamp",
        "_home",
        "_indexes",
        "_is_preallocated",
        "_recent",
        "_transactions",
        "base_offset",
        "created_ms",
        "log",
        "roll_jitter_ms",
        "size",
    )

    def __init__(
        self, home: SegmentFactory, base_offset: int, *, size: int, created_ms: int
    ) -> None:
        self._home = home
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        # How much earlier than `segment.ms` it is old, so that logs made together part ways (RL-1).
        self.roll_jitter_ms = home.rng.below(home.jitter_limit_ms) if home.jitter_limit_ms else 0
        self._is_preallocated = False
        self.log: CachedFile = home.files.open(path_of(home.folder, base_offset, LOG))
        self._indexes = SparseIndexes(home, self)
        self._transactions: TransactionIndex | None = None
        self._recent = RecentBatches()
        self._expected = SequentialReadHints()
        self._first_timestamp: int | None = None

    @classmethod
    def create(
        cls, home: SegmentFactory, base_offset: int, *, created_ms: int, is_first: bool = False
    ) -> LogSegment:
        """A new, empty segment; what stood under its names is emptied.

        The first one in a new folder finds nothing there, and costs no more than its log file.
        """
        segment = cls(home, base_offset, size=0, created_ms=created_ms)
        segment.log = home.files.open(segment.log.path, create=True)
        segment.log.file().truncate(0)
        if home.preallocated_bytes:
            segment._is_preallocated = True
            segment.log.file().preallocate(home.preallocated_bytes)
        if is_first:
            segment._indexes.begin()
        else:
            segment.empty_indexes()
        return segment

    @property
    def offset_index(self) -> OffsetIndex:
        return self._indexes.offsets

    @property
    def time_index(self) -> TimeIndex:
        return self._indexes.times

    @property
    def has_new_indexes(self) -> bool:
        """Whether the indexes were made here, and so may not be on disk yet."""
        return self._indexes.is_fresh

    @property
    def transactions(self) -> TransactionIndex:
        """The aborted transactions whose marker lies in this segment."""
        if self._transactions is None:
            home = self._home
            path = path_of(home.folder, self.base_offset, TRANSACTION_INDEX)
            self._transactions = TransactionIndex(home.disk, path, self.base_offset)
        return self._transactions

    def forget_transactions(self) -> None:
        """Drop the transaction index, to build it anew from the markers."""
        self._home.disk.remove(path_of(self._home.folder, self.base_offset, TRANSACTION_INDEX))
        self._transactions = None

    @property
    def largest_timestamp(self) -> int:
        return self._indexes.largest()[0]

    @property
    def offset_of_largest_timestamp(self) -> int:
        """The last offset of the batch in which the largest timestamp was first met."""
        return self._indexes.largest()[1]

    @property
    def first_timestamp(self) -> int:
        """The first batch's largest timestamp, from which the segment's age is counted (RL-1)."""
        if self._first_timestamp is None:
            first = next(walk_headers(self.log.file(), 0, self.size), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp = first.header.max_timestamp
        return self._first_timestamp

    def append(self, content: Buffer, batches: Sequence[AppendedBatch]) -> None:
        """Write batches that lie back to back in `content`, and index them."""
        position = self.size
        indexes = self._indexes
        if indexes.largest_timestamp is None:
            indexes.largest()
        self.log.file().write((content,), position)
        if not position:
            self._first_timestamp = batches[0][2]
        for batch in batches:
            indexes.note(position, batch)
            self._recent.add(batch[1], position)
            position += batch[0]
        self.size = position

    def place(self, offset: int) -> tuple[int, int] | None:
        """Where the first batch that ends at or after the offset begins and ends, if there is one.

        Costs next to nothing at the end of a log that is appended to, and for a batch of which
        `expect` has told.
        """
        known = self._recent.find(offset, self.size) or self._expected.find(offset)
        if known is not None:
            return known
        placed = self.locate(offset)
        return None if placed is None else (placed.position, placed.end)

    def expect(self, position: int, header: BatchHeader) -> None:
        """A reader has met that batch, and will ask for it next."""
        if position + header.size_bytes <= self.size:
            self._expected.add(position, header)

    def locate(self, offset: int) -> PlacedHeader | None:
        """The first batch that ends at or after the offset, or None past the end."""
        return next(self.headers_since(offset), None)

    def headers_since(self, offset: int) -> Iterator[PlacedHeader]:
        """The batches that end at or after the offset, by their headers."""
        for placed in self._headers_before(offset):
            if placed.header.last_offset >= offset:
                yield placed

    def producer_batches_since(self, offset: int) -> Iterator[PlacedHeader]:
        """The batches with a producer that end at or after the offset, but for some of its oldest.

        See `producer_headers`: what is left out is what the later ones would make forgotten.
        """
        first = self.locate(offset)
        if first is None:
            return iter(())
        return walk_producers(self.log.file(), first.position, self.size)

    def next_offset(self) -> int:
        """The offset after the last batch, found from the last index entry on."""
        following = self.base_offset
        last = self.offset_index.last_position
        for placed in self._headers_by_index(last, INT64_MAX):
            # No CRC covers a base offset, and a log that seemed to end below its start is emptied.
            self._check_offsets(placed.header, following)
            following = placed.header.next_offset
        return following

    def end_before(self, offset: int) -> int:
        """Where the batches end that lie below the offset all of them."""
        following = self.base_offset
        for placed in self._headers_before(offset - 1):
            if placed.header.last_offset >= offset:
                break
            following = placed.header.next_offset
        return following

    def _headers_before(self, offset: int) -> Iterator[PlacedHeader]:
        """All batches from one on that does not end behind the offset."""
        return self._headers_by_index(lambda: self.offset_index.position_before(offset), offset)

    def _headers_by_index(
        self, find: Callable[[], int], highest_offset: int
    ) -> Iterator[PlacedHeader]:
        """All batches from where the index says; the first may end at an offset at the latest.

        An index found on disk is taken at its word only if such a batch begins there. Else it
        would have records skipped in silence, so it is built anew, once.
        """
        start = find()
        headers = walk_headers(self.log.file(), start, self.size)
        if start and not self._indexes.is_fresh:
            first = self._first_header(start, headers, highest_offset)
            if first is not None:
                return chain((first,), headers)
            self.rebuild_indexes()
            start = find()
            headers = walk_headers(self.log.file(), start, self.size)
        return headers

    def _first_header(
        self, start: int, headers: Iterator[PlacedHeader], highest_offset: int
    ) -> PlacedHeader | None:
        if not 0 < start < self.size:
            return None
        try:
            first = next(headers)
        except BatchError:
            return None
        is_possible = self.base_offset <= first.header.base_offset
        return first if is_possible and first.header.last_offset <= highest_offset else None

    def truncate_to(self, offset: int) -> None:
        """Cut off the batch that holds the offset and all behind it."""
        self._recent.clear()
        self._expected.clear()
        placed = self.locate(offset)
        if placed is not None:
            file = self.log.file()
            file.truncate(placed.position)
            # Or the old tail could come back after a power cut, while what was appended in its
            # stead had gone to the next segment and stayed.
            file.sync()
            self.size = placed.position
        self._indexes.truncate_from(offset)
        self.transactions.truncate_to(offset)
        self._first_timestamp = None
        self._look_for_larger_timestamp()

    def has_room_for(
        self, size_bytes: int, last_offset: int, limit_bytes: int, pending_bytes: int
    ) -> bool:
        """Whether an append fits. An empty segment takes any size, or the append could never be."""
        if self._indexes.is_full or last_offset - self.base_offset > INT32_MAX:
            return False
        used_bytes = self.size + pending_bytes
        return not used_bytes or used_bytes + size_bytes <= limit_bytes

    def seal(self) -> None:
        """Close the indexes: the largest timestamp gets its entry and all entries their file."""
        self._recent.clear()
        if self.size:
            self._indexes.close()
        self.write_out()

    def trim(self) -> None:
        """Give back the room that was reserved and not used; nothing more is written here."""
        if self._is_preallocated:
            self.log.file().truncate(self.size)
            self._is_preallocated = False

    def write_out(self) -> None:
        self._indexes.write_out()

    def cached_files(self) -> tuple[CachedFile, ...]:
        """The files that a flush has to sync, but for the transaction index."""
        return (self.log, *self._indexes.cached_files())

    def forget(self) -> None:
        """Close the files; the segment is not used any more."""
        self.log.forget()
        self._indexes.forget()

    def rebuild(self, judge: BatchChecker) -> BatchError | None:
        """Read the whole segment, index it anew, and stop at the first batch that is refused.

        That refusal is returned, and the size is then where the last accepted batch ends. The file
        itself is not cut here: whether it should be is for the caller to say.
        """
        size, file = self._begin_anew(), self.log.file()
        refusal: BatchError | None = None
        try:
            while self.size < size:
                chunk = memoryview(file.read(min(_CHUNK_BYTES, size - self.size), self.size))
                if not self._take_run(chunk, judge):
                    self._take_batch(chunk, size - self.size, judge)
        except BatchError as failure:
            refusal = failure
        if size:
            self.seal()
        return refusal

    def rebuild_indexes(self) -> None:
        """Index the content anew without judging it; what cannot be walked stays unindexed."""
        size = self._begin_anew()
        with suppress(BatchError):
            for placed in walk_headers(self.log.file(), 0, size):
                self._check_offsets(placed.header, self.base_offset)
                self._take(placed.header)
        if size:
            self.seal()
        self.size = size

    def _begin_anew(self) -> int:
        """Forget what is known of the content; how many bytes there are to look at."""
        size, self.size = self.size, 0
        self._recent.clear()
        self.empty_indexes()
        return size

    def _take_run(self, chunk: memoryview, judge: BatchChecker) -> bool:
        """Take all batches at the start of a chunk that need no closer look; False if none."""
        if self.base_offset > INT64_MAX - 2 * INT32_MAX:
            return False
        run = sound_run(
            chunk,
            self.size,
            lowest_offset=max(judge.next_offset, self.base_offset),
            highest_offset=self.base_offset + INT32_MAX,
            leader_epoch=judge.leader_epoch,
            index_interval_bytes=self._home.index_interval_bytes,
            progress=self._indexes.progress,
        )
        if not run.size_bytes:
            return False
        self._indexes.note_run(run.entries, run.progress)
        self.size += run.size_bytes
        judge.next_offset = run.next_offset
        return True

    def _take_batch(self, chunk: memoryview, available: int, judge: BatchChecker) -> None:
        """Take one batch, or raise what is wrong with it."""
        header = header_at(chunk, 0, available)
        self._check_offsets(header, self.base_offset)
        if header.size_bytes > len(chunk):
            chunk = memoryview(self.log.file().read(header.size_bytes, self.size))
        judge.accept(header, chunk[: header.size_bytes])
        self._take(header)

    def _take(self, header: BatchHeader) -> None:
        size_bytes = header.size_bytes
        self._indexes.note(self.size, (size_bytes, header.last_offset, header.max_timestamp))
        self.size += size_bytes

    def _check_offsets(self, header: BatchHeader, lowest: int) -> None:
        """Refuse a batch whose offsets cannot lie here: indexes hold them relative, as int32."""
        if header.base_offset < lowest or header.last_offset - self.base_offset > INT32_MAX:
            raise CorruptBatch(
                f"offsets {header.base_offset} to {header.last_offset} cannot follow {lowest} "
                f"in the segment at {self.base_offset}"
            )

    def agrees_with(self, index: TimeIndex) -> bool:
        """Whether the last entry of a time index names a batch of this segment."""
        if not index.has_whole_entries:
            return False
        largest = index.largest()
        if largest is None:
            return not self.size or self.first_timestamp == NO_TIMESTAMP
        return largest[1] >= self.base_offset and self.locate(largest[1]) is not None

    def empty_indexes(self) -> None:
        """Forget what the indexes say. Without an entry a search begins at the first batch."""
        self._indexes.empty()
        self._first_timestamp = None

    def _look_for_larger_timestamp(self) -> None:
        """Truncation cuts the closing entry, so the batches behind the last entry are asked."""
        largest, offset = self._indexes.largest()
        start = self.offset_index.position_before(offset)
        for placed in walk_headers(self.log.file(), start, self.size):
            if placed.header.max_timestamp > largest:
                largest = placed.header.max_timestamp
                self._indexes.raise_largest(largest, placed.header.last_offset)
