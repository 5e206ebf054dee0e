"""Maintain the offset index and time index of one segment.

Both get an entry about every `index.interval.bytes` of log. An index found on disk is checked when
it is first used; if it cannot be right, both are rebuilt from the log.

Note: the segment's largest timestamp is tracked here. The time index gets it only with its next
entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headwater.common.exceptions import TooManyOpenFiles
from headwater.common.ids import NO_TIMESTAMP
from headwater.records.kernel.batch_runs import IndexEntry, IndexProgress
from headwater.storage.index.offset_index import OffsetIndex
from headwater.storage.index.time_index import TimeIndex
from headwater.storage.io.open_files import CachedFile
from headwater.storage.log.segment_factory import SegmentFactory
from headwater.storage.log.segment_files import INDEX, TIME_INDEX, path_of

# Size, last offset and largest timestamp of one batch: a bare tuple, made for every append.
AppendedBatch = tuple[int, int, int]


class Indexed(Protocol):
    """Segment that the indexes belong to."""

    base_offset: int
    size: int

    def agrees_with(self, index: TimeIndex) -> bool:
        """Return whether a time index found on disk is plausible for this segment."""

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the log."""


class SparseIndexes:
    """Offset index and time index of one segment."""

    __slots__ = (
        "_bytes_since_entry",
        "_home",
        "_indexed_timestamp",
        "_largest_offset",
        "_offsets",
        "_segment",
        "_slots_left",
        "_times",
        "is_fresh",
        "is_full",
        "largest_timestamp",
    )

    def __init__(self, home: SegmentFactory, segment: Indexed) -> None:
        self._home = home
        self._segment = segment
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        # Indexes created here are sound; indexes found on disk are checked at the first use.
        self.is_fresh = False
        self.is_full = False
        self._bytes_since_entry = segment.size
        # None until `largest` is called.
        self.largest_timestamp: int | None = None
        self._largest_offset = segment.base_offset
        self._indexed_timestamp = NO_TIMESTAMP
        self._slots_left = 0

    @property
    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            home, segment = self._home, self._segment
            self._offsets = OffsetIndex(
                home.files,
                path_of(home.folder, segment.base_offset, INDEX),
                base_offset=segment.base_offset,
                max_bytes=home.index_max_bytes,
            )
            if self.is_fresh:
                self._offsets.begin()
            elif not self._offsets.is_sane(segment.size):
                segment.rebuild_indexes()
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            home, segment = self._home, self._segment
            self._times = TimeIndex(
                home.files,
                path_of(home.folder, segment.base_offset, TIME_INDEX),
                base_offset=segment.base_offset,
                max_bytes=home.index_max_bytes,
            )
            if self.is_fresh:
                self._times.begin()
            elif not segment.agrees_with(self._times):
                segment.rebuild_indexes()
        return self._times

    @property
    def progress(self) -> IndexProgress:
        """State that decides how the next batch is indexed."""
        largest_timestamp, largest_offset = self.largest()
        return IndexProgress(largest_timestamp, largest_offset, self._bytes_since_entry)

    def largest(self) -> tuple[int, int]:
        """Return the largest timestamp, and the last offset of its first batch.

        For a sealed segment this is the last entry of the time index.
        """
        if self.largest_timestamp is None:
            known = self.times.largest()
            base_offset = self._segment.base_offset
            self.largest_timestamp, self._largest_offset = known or (NO_TIMESTAMP, base_offset)
        return self.largest_timestamp, self._largest_offset

    def begin(self) -> None:
        """Start the indexes of an empty segment in a directory without index files."""
        self.is_fresh = True
        self.largest_timestamp = NO_TIMESTAMP

    def empty(self) -> None:
        """Remove all entries. A lookup without entries starts at the first batch."""
        self.is_fresh = True
        for index in (self.offsets, self.times):
            index.begin()
            if self._home.disk.status(index.cached.path) is not None:
                index.write_out()
        self._bytes_since_entry = 0
        self.largest_timestamp = NO_TIMESTAMP
        self._largest_offset = self._segment.base_offset
        self._indexed_timestamp = NO_TIMESTAMP
        self._count_slots()

    def on_append(self, position: int, batch: AppendedBatch) -> None:
        """Index an appended batch at most every `index.interval.bytes`.

        Called after the write. `largest` must have been called before, because that may have to
        read.
        """
        size_bytes, last_offset, max_timestamp = batch
        assert self.largest_timestamp is not None
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self._largest_offset = last_offset
        if self._bytes_since_entry > self._home.index_interval_bytes:
            self._add_entries(last_offset, position, self.largest_timestamp)
        self._bytes_since_entry += size_bytes

    def on_append_run(self, entries: Sequence[IndexEntry], progress: IndexProgress) -> None:
        """Index many appended batches, whose entries the kernel has chosen."""
        for last_offset, position, timestamp, self._largest_offset in entries:
            self._add_entries(last_offset, position, timestamp)
        self.largest_timestamp, self._largest_offset, self._bytes_since_entry = progress

    def close(self) -> None:
        """Add the time index entry for the largest timestamp; the segment is sealed."""
        self.times.add(*self.largest())

    def truncate_from(self, offset: int) -> None:
        """Remove the entries of the batch that contains the offset and of all later ones."""
        self.offsets.truncate_from(offset)
        self.times.truncate_from(offset)
        self.largest_timestamp = None
        self._indexed_timestamp = NO_TIMESTAMP
        self._count_slots()
        self._bytes_since_entry = self._segment.size - self.offsets.last_position()

    def raise_largest(self, timestamp: int, offset: int) -> None:
        """Record a larger timestamp found in a batch after the last entry."""
        self.largest_timestamp, self._largest_offset = timestamp, offset

    def write_out(self) -> None:
        self.offsets.write_out()
        self.times.write_out()

    def cached_files(self) -> tuple[CachedFile, CachedFile]:
        return self.offsets.cached, self.times.cached

    def forget(self) -> None:
        for index in (self._offsets, self._times):
            if index is not None:
                index.cached.forget()

    def _add_entries(self, last_offset: int, position: int, largest_timestamp: int) -> None:
        try:
            self.offsets.add(last_offset, position)
            if largest_timestamp > self._indexed_timestamp:
                self.times.add(largest_timestamp, self._largest_offset)
                self._indexed_timestamp = largest_timestamp
        except TooManyOpenFiles:
            # The batch is already written and can do without an entry; the next one gets it.
            self._slots_left = 0
            return
        self._bytes_since_entry = 0
        self._slots_left -= 1
        if self._slots_left <= 0:
            self._count_slots()

    def _count_slots(self) -> None:
        """Count the entries that still fit; afterwards they are counted down."""
        self._slots_left = min(self.offsets.room, self.times.room)
        self.is_full = self._slots_left <= 0
