"""LogSegment: a file of batches with its offset, time and transaction index.

A segment is cheap: its files open on first use and the open-file cache may close them again at any
time. Facts about its content, such as the largest timestamp, are read from its indexes when first
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Protocol

from headwater.common.exceptions import BatchError, CorruptBatch
from headwater.common.ids import NO_TIMESTAMP
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.kernel import valid_run
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

# Read size when a whole segment is checked.
_CHUNK_BYTES = 4 << 20


class BatchChecker(Protocol):
    """Decides which batches of an unflushed segment are kept."""

    next_offset: int
    """Lowest base offset allowed for the next batch."""

    @property
    def leader_epoch(self) -> int:
        """Leader epoch of the last batch; a batch with another epoch goes to `accept`."""

    def accept(self, header: BatchHeader, content: memoryview) -> None:
        """Check a batch; raise a `BatchError` to reject it."""


class LogSegment:
    """Batches from `base_offset` up to the next segment's base offset."""

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
        # Rolls earlier than `segment.ms` by this, so that logs created together do not roll
        # together (RL-1).
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
        """Create an empty segment, truncating existing files of the same names.

        The first one in a new directory finds no such files, and costs only its log file.
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
        """Whether the indexes were created here, and so may not be on disk yet."""
        return self._indexes.is_fresh

    @property
    def transactions(self) -> TransactionIndex:
        """Transaction index: aborted transactions whose marker is in this segment."""
        if self._transactions is None:
            home = self._home
            path = path_of(home.folder, self.base_offset, TRANSACTION_INDEX)
            self._transactions = TransactionIndex(home.disk, path, self.base_offset)
        return self._transactions

    def forget_transactions(self) -> None:
        """Delete the transaction index, to rebuild it from the markers."""
        self._home.disk.remove(path_of(self._home.folder, self.base_offset, TRANSACTION_INDEX))
        self._transactions = None

    @property
    def largest_timestamp(self) -> int:
        return self._indexes.largest()[0]

    @property
    def offset_of_largest_timestamp(self) -> int:
        """Last offset of the batch where the largest timestamp first occurred."""
        return self._indexes.largest()[1]

    @property
    def first_timestamp(self) -> int:
        """The first batch's largest timestamp: the segment's age counts from it (RL-1)."""
        if self._first_timestamp is None:
            first = next(walk_headers(self.log.file(), 0, self.size), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp = first.header.max_timestamp
        return self._first_timestamp

    def append(self, content: Buffer, batches: Sequence[AppendedBatch]) -> None:
        """Write the contiguous batches in `content` and index them."""
        position = self.size
        indexes = self._indexes
        if indexes.largest_timestamp is None:
            indexes.largest()
        self.log.file().write((content,), position)
        if not position:
            self._first_timestamp = batches[0][2]
        for batch in batches:
            indexes.on_append(position, batch)
            self._recent.add(batch[1], position)
            position += batch[0]
        self.size = position

    def position_range(self, offset: int) -> tuple[int, int] | None:
        """Return the positions of the first batch that ends at or after the offset.

        Cheap at the end of an active log and for a batch passed to `expect`.
        """
        known = self._recent.find(offset, self.size) or self._expected.find(offset)
        if known is not None:
            return known
        placed = self.locate(offset)
        return None if placed is None else (placed.position, placed.end)

    def expect(self, position: int, header: BatchHeader) -> None:
        """Remember a batch that a reader will fetch next."""
        if position + header.size_bytes <= self.size:
            self._expected.add(position, header)

    def locate(self, offset: int) -> PlacedHeader | None:
        """Return the first batch that ends at or after the offset, or None past the end."""
        return next(self.headers_since(offset), None)

    def headers_since(self, offset: int) -> Iterator[PlacedHeader]:
        """Yield the headers of batches that end at or after the offset."""
        for placed in self._headers_before(offset):
            if placed.header.last_offset >= offset:
                yield placed

    def producer_batches_since(self, offset: int) -> Iterator[PlacedHeader]:
        """Yield producers' batches from the offset on, without some of the oldest.

        `producer_headers` leaves out batches that later ones push out of the producer state.
        """
        first = self.locate(offset)
        if first is None:
            return iter(())
        return walk_producers(self.log.file(), first.position, self.size)

    def next_offset(self) -> int:
        """Return the offset after the last batch, scanning from the last index entry on."""
        following = self.base_offset
        last = self.offset_index.last_position
        for placed in self._headers_by_index(last, INT64_MAX):
            # The CRC does not cover the base offset, and a log that seems to end below its start is
            # emptied.
            self._check_offsets(placed.header, following)
            following = placed.header.next_offset
        return following

    def end_before(self, offset: int) -> int:
        """Return the position after the last batch that is completely below the offset."""
        following = self.base_offset
        for placed in self._headers_before(offset - 1):
            if placed.header.last_offset >= offset:
                break
            following = placed.header.next_offset
        return following

    def _headers_before(self, offset: int) -> Iterator[PlacedHeader]:
        """Yield the batches from one on that does not end after the offset."""
        return self._headers_by_index(lambda: self.offset_index.position_before(offset), offset)

    def _headers_by_index(
        self, find: Callable[[], int], highest_offset: int
    ) -> Iterator[PlacedHeader]:
        """Yield batches from an indexed position; the first must not end after an offset.

        An index found on disk is trusted only if such a batch begins there. Otherwise records would
        be skipped silently, so the index is rebuilt once.
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
        """Remove the batch that holds the offset and all later ones."""
        self._recent.clear()
        self._expected.clear()
        placed = self.locate(offset)
        if placed is not None:
            file = self.log.file()
            file.truncate(placed.position)
            # Otherwise a power cut could bring the old tail back, while the records appended in its
            # place went to the next segment and stayed.
            file.sync()
            self.size = placed.position
        self._indexes.truncate_from(offset)
        self.transactions.truncate_to(offset)
        self._first_timestamp = None
        self._scan_for_larger_timestamp()

    def has_room_for(
        self, size_bytes: int, last_offset: int, limit_bytes: int, pending_bytes: int
    ) -> bool:
        """Return whether an append fits; an empty segment takes any size."""
        if self._indexes.is_full or last_offset - self.base_offset > INT32_MAX:
            return False
        used_bytes = self.size + pending_bytes
        return not used_bytes or used_bytes + size_bytes <= limit_bytes

    def seal(self) -> None:
        """Finish the indexes: add the largest timestamp's entry and write all entries."""
        self._recent.clear()
        if self.size:
            self._indexes.close()
        self.write_out()

    def trim(self) -> None:
        """Release reserved disk space; nothing more is written to this segment."""
        if self._is_preallocated:
            self.log.file().truncate(self.size)
            self._is_preallocated = False

    def write_out(self) -> None:
        self._indexes.write_out()

    def cached_files(self) -> tuple[CachedFile, ...]:
        """Files that a flush syncs, except the transaction index."""
        return (self.log, *self._indexes.cached_files())

    def forget(self) -> None:
        """Close the files; the segment is no longer used."""
        self.log.forget()
        self._indexes.forget()

    def rebuild(self, checker: BatchChecker) -> BatchError | None:
        """Read the segment, rebuild its indexes, stop at the first rejected batch.

        The rejection is returned, and the size is then where the last accepted batch ends. The file
        is not truncated here; that is the caller's decision.
        """
        size, file = self._reset_content(), self.log.file()
        refusal: BatchError | None = None
        try:
            while self.size < size:
                chunk = memoryview(file.read(min(_CHUNK_BYTES, size - self.size), self.size))
                if not self._index_run(chunk, checker):
                    self._index_batch(chunk, size - self.size, checker)
        except BatchError as failure:
            refusal = failure
        if size:
            self.seal()
        return refusal

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes without checks; unreadable content stays unindexed."""
        size = self._reset_content()
        with suppress(BatchError):
            for placed in walk_headers(self.log.file(), 0, size):
                self._check_offsets(placed.header, self.base_offset)
                self._index_header(placed.header)
        if size:
            self.seal()
        self.size = size

    def _reset_content(self) -> int:
        """Reset what is known about the content; return the bytes to read."""
        size, self.size = self.size, 0
        self._recent.clear()
        self.empty_indexes()
        return size

    def _index_run(self, chunk: memoryview, checker: BatchChecker) -> bool:
        """Index all leading batches of a chunk that need no `accept` call; False if none."""
        if self.base_offset > INT64_MAX - 2 * INT32_MAX:
            return False
        run = valid_run(
            chunk,
            self.size,
            lowest_offset=max(checker.next_offset, self.base_offset),
            highest_offset=self.base_offset + INT32_MAX,
            leader_epoch=checker.leader_epoch,
            index_interval_bytes=self._home.index_interval_bytes,
            progress=self._indexes.progress,
        )
        if not run.size_bytes:
            return False
        self._indexes.on_append_run(run.entries, run.progress)
        self.size += run.size_bytes
        checker.next_offset = run.next_offset
        return True

    def _index_batch(self, chunk: memoryview, available: int, checker: BatchChecker) -> None:
        """Index one batch, or raise its `BatchError`."""
        header = header_at(chunk, 0, available)
        self._check_offsets(header, self.base_offset)
        if header.size_bytes > len(chunk):
            chunk = memoryview(self.log.file().read(header.size_bytes, self.size))
        checker.accept(header, chunk[: header.size_bytes])
        self._index_header(header)

    def _index_header(self, header: BatchHeader) -> None:
        size_bytes = header.size_bytes
        self._indexes.on_append(self.size, (size_bytes, header.last_offset, header.max_timestamp))
        self.size += size_bytes

    def _check_offsets(self, header: BatchHeader, lowest: int) -> None:
        """Reject a batch whose offsets do not fit: indexes hold them relative, as int32."""
        if header.base_offset < lowest or header.last_offset - self.base_offset > INT32_MAX:
            raise CorruptBatch(
                f"offsets {header.base_offset} to {header.last_offset} cannot follow {lowest} "
                f"in the segment at {self.base_offset}"
            )

    def agrees_with(self, index: TimeIndex) -> bool:
        """Return whether the last entry of a time index refers to a batch of this segment."""
        if not index.has_whole_entries:
            return False
        largest = index.largest()
        if largest is None:
            return not self.size or self.first_timestamp == NO_TIMESTAMP
        return largest[1] >= self.base_offset and self.locate(largest[1]) is not None

    def empty_indexes(self) -> None:
        """Remove all index entries. A lookup without entries starts at the first batch."""
        self._indexes.empty()
        self._first_timestamp = None

    def _scan_for_larger_timestamp(self) -> None:
        """Scan the batches after the last index entry: truncation removed the final entry."""
        largest, offset = self._indexes.largest()
        start = self.offset_index.position_before(offset)
        for placed in walk_headers(self.log.file(), start, self.size):
            if placed.header.max_timestamp > largest:
                largest = placed.header.max_timestamp
                self._indexes.raise_largest(largest, placed.header.last_offset)
