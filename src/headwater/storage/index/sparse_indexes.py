"""The two sparse indexes of one segment, which are filled together, every few kilobytes of log.

An index that was found on disk is looked at when it is first used, and if it cannot be right, both
are built anew from the log. What a reader would get wrong: the largest timestamp is known here and
not in the time index, which gets it only with the next entry.
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
    """The segment that the indexes are of."""

    base_offset: int
    size: int

    def agrees_with(self, index: TimeIndex) -> bool:
        """Whether a time index that was found on disk can be of this segment."""

    def rebuild_indexes(self) -> None:
        """Fill the indexes anew from the content."""


class SparseIndexes:
    """See the module."""

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
        # Those that were made here are sound; those found on disk are looked at when first used.
        self.is_fresh = False
        self.is_full = False
        self._bytes_since_entry = segment.size
        # None until somebody asks `largest`.
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
        """What the next batch is indexed by."""
        largest_timestamp, largest_offset = self.largest()
        return IndexProgress(largest_timestamp, largest_offset, self._bytes_since_entry)

    def largest(self) -> tuple[int, int]:
        """The largest timestamp, and the last offset of the batch in which it was first met.

        A sealed segment's last time index entry says it.
        """
        if self.largest_timestamp is None:
            known = self.times.largest()
            base_offset = self._segment.base_offset
            self.largest_timestamp, self._largest_offset = known or (NO_TIMESTAMP, base_offset)
        return self.largest_timestamp, self._largest_offset

    def begin(self) -> None:
        """Be those of a segment that has nothing yet, in a folder that has no indexes."""
        self.is_fresh = True
        self.largest_timestamp = NO_TIMESTAMP

    def empty(self) -> None:
        """Forget all entries. Without one a search begins at the first batch."""
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

    def note(self, position: int, batch: AppendedBatch) -> None:
        """A batch begins at a position; it gets an entry if the last one is far enough.

        It is written already, so `largest` was asked before: that may have to read.
        """
        size_bytes, last_offset, max_timestamp = batch
        assert self.largest_timestamp is not None
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self._largest_offset = last_offset
        if self._bytes_since_entry > self._home.index_interval_bytes:
            self._add_entries(last_offset, position, self.largest_timestamp)
        self._bytes_since_entry += size_bytes

    def note_run(self, entries: Sequence[IndexEntry], progress: IndexProgress) -> None:
        """The same of many batches, whose entries the kernel has chosen."""
        for last_offset, position, timestamp, self._largest_offset in entries:
            self._add_entries(last_offset, position, timestamp)
        self.largest_timestamp, self._largest_offset, self._bytes_since_entry = progress

    def close(self) -> None:
        """Nothing more comes: the largest timestamp gets its entry."""
        self.times.add(*self.largest())

    def truncate_from(self, offset: int) -> None:
        """The batch that holds the offset is gone, and all behind it."""
        self.offsets.truncate_from(offset)
        self.times.truncate_from(offset)
        self.largest_timestamp = None
        self._indexed_timestamp = NO_TIMESTAMP
        self._count_slots()
        self._bytes_since_entry = self._segment.size - self.offsets.last_position()

    def raise_largest(self, timestamp: int, offset: int) -> None:
        """A batch behind the last entry has a larger timestamp than any that is known."""
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
            # The batch is written already, and can do without: the next one gets an entry.
            self._slots_left = 0
            return
        self._bytes_since_entry = 0
        self._slots_left -= 1
        if self._slots_left <= 0:
            self._count_slots()

    def _count_slots(self) -> None:
        """How many entries fit either index; counted down from here, as counting costs."""
        self._slots_left = min(self.offsets.room, self.times.room)
        self.is_full = self._slots_left <= 0
