"""What the segment cache holds and what it has room for. Pure.

A segment is cached in *extents*, aligned parts of a fixed size with a file each. An extent holds
*pieces*: bytes of the segment that one read from the log's disk brought in. A range belongs to the
extent in which it begins, and may reach beyond the extent's end, so that it never needs two files.

Admission: bytes are kept when they are read for the second time (or the first, if so configured),
because most lagging consumers read their records once. Eviction: the least recently used extent.

Note: a segment is identified by its `CachedFile` object and the truncation count of its log. The
object ends with the file: deletion, retention, compaction and a move to another log directory all
create new ones, so no piece can be found under bytes that are not its own.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

V = TypeVar("V")

EXTENT_BYTES: Final = 16 << 20
_EXTENTS: Final = 1024
"""About as many extents as a full cache has, and so open files, unless it is small."""

_PIECES_PER_EXTENT: Final = 1024
_STRETCHES_PER_EXTENT: Final = 64
_REMEMBERED_PER_EXTENT: Final = 4
"""Extents whose first reads are remembered, for each extent that fits."""

_start_of = attrgetter("start")


class Segment(NamedTuple):
    """One state of a segment file: after a truncation it is another one."""

    file: Hashable
    generation: int


class ExtentId(NamedTuple):
    """Aligned part of a segment."""

    segment: Segment
    ordinal: int


@dataclass(slots=True, kw_only=True, eq=False)
class Piece:
    """Bytes `start` to `end` of a segment; readable once they have been written."""

    start: int
    end: int
    checksum: int | None = None
    is_verified: bool = False

    @property
    def is_written(self) -> bool:
        return self.checksum is not None


@dataclass(slots=True, kw_only=True, eq=False)
class Extent:
    """Cached part of a segment: disjoint pieces by start, in one file."""

    id: ExtentId
    number: int
    start: int
    pieces: list[Piece] = field(default_factory=list)
    size_bytes: int = 0
    # Reads, writes and responses that use the file. Meanwhile its space cannot be freed.
    holds: int = 0
    is_dropped: bool = False

    def covering(self, start: int, end: int) -> list[Piece] | None:
        """Return the written pieces that cover a range, or None if bytes are missing."""
        found = []
        index = bisect_right(self.pieces, start, key=_start_of) - 1
        while 0 <= index < len(self.pieces):
            piece = self.pieces[index]
            if not piece.is_written or not piece.start <= start < piece.end:
                return None
            found.append(piece)
            if piece.end >= end:
                return found
            start = piece.end
            index += 1
        return None

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range that no piece has, written or not."""
        found = []
        first = max(0, bisect_right(self.pieces, start, key=_start_of) - 1)
        for piece in self.pieces[first:]:
            if piece.start >= end:
                break
            if start < piece.start:
                found.append((start, piece.start))
            start = max(start, piece.end)
        if start < end:
            found.append((start, end))
        return found


class _ByExtent(Generic[V]):
    """Values by extent, least recently used first, with an index by file."""

    def __init__(self) -> None:
        self._values: OrderedDict[ExtentId, V] = OrderedDict()
        self._ids: dict[Hashable, dict[ExtentId, None]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[V]:
        return iter(self._values.values())

    def get(self, id: ExtentId) -> V | None:  # noqa: A002, it is one
        return self._values.get(id)

    def touch(self, id: ExtentId) -> None:  # noqa: A002, it is one
        self._values.move_to_end(id)

    def put(self, id: ExtentId, value: V) -> None:  # noqa: A002, it is one
        self._values[id] = value
        self._ids.setdefault(id.segment.file, {})[id] = None

    def remove(self, id: ExtentId) -> V:  # noqa: A002, it is one
        ids = self._ids[id.segment.file]
        del ids[id]
        if not ids:
            del self._ids[id.segment.file]
        return self._values.pop(id)

    def remove_oldest(self) -> None:
        self.remove(next(iter(self._values)))

    def ids_of(self, file: Hashable) -> list[ExtentId]:
        return list(self._ids.get(file, ()))


class SecondReads:
    """Remembers, within bounds, which bytes were read from the log's disk once."""

    def __init__(self, extent_limit: int) -> None:
        self._extent_limit = extent_limit
        self._stretches: _ByExtent[list[tuple[int, int]]] = _ByExtent()

    def __len__(self) -> int:
        return len(self._stretches)

    def note(self, id: ExtentId, start: int, end: int) -> bool:  # noqa: A002, it is one
        """Note a read; return whether at least half of the bytes were read before.

        Half, because a consumer that was sent an incomplete batch reads it again as the beginning
        of its next range.
        """
        known = self._stretches.get(id) or []
        again = sum(max(0, min(end, b) - max(start, a)) for a, b in known)
        merged = [(a, b) for a, b in known if b < start or a > end]
        touching = [(a, b) for a, b in known if not (b < start or a > end)]
        insort(
            merged,
            (min([start, *(a for a, _ in touching)]), max([end, *(b for _, b in touching)])),
        )
        if len(merged) > _STRETCHES_PER_EXTENT:
            merged = [(start, end)]
        self._stretches.put(id, merged)
        self._stretches.touch(id)
        if len(self._stretches) > self._extent_limit:
            self._stretches.remove_oldest()
        return 2 * again >= end - start

    def forget(self, file: Hashable) -> None:
        for each in self._stretches.ids_of(file):
            self._stretches.remove(each)


class CacheTable:
    """Extents of the cache within a limit; decides admission and eviction.

    Extents that were evicted or have become invalid wait until the caller takes them to remove
    their files, and use space until then. Their files must be removed before anything is written.
    """

    def __init__(self, limit_bytes: int, *, min_reads: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.eviction_count = 0
        self._dropped: list[Extent] = []
        self._min_reads = min_reads
        self._extent_bytes = max(EXTENT_BYTES, 1 << (limit_bytes // _EXTENTS).bit_length())
        extent_count = limit_bytes // self._extent_bytes + 1
        self._first_reads = SecondReads(_REMEMBERED_PER_EXTENT * extent_count)
        self._extents: _ByExtent[Extent] = _ByExtent()
        self._generations: dict[Hashable, int] = {}
        self._extent_count = 0

    def __iter__(self) -> Iterator[Extent]:
        return iter(self._extents)

    def find(self, segment: Segment, start: int, end: int) -> tuple[Extent, list[Piece]] | None:
        """Return the extent and the pieces that have a range, as used just now."""
        extent = self._extents.get(self._id(segment, start))
        pieces = None if extent is None else extent.covering(start, end)
        if extent is None or pieces is None:
            return None
        self._extents.touch(extent.id)
        return extent, pieces

    def admit(
        self, segment: Segment, start: int, end: int, *, readers: int
    ) -> tuple[Extent, list[Piece]] | None:
        """Note a read from the log's disk; return the pieces of it to write, if any.

        `readers` is the number of consumers that shared the read. `written` must follow for each
        piece, or `drop_all`.
        """
        if not self._is_current(segment):
            return None
        id = self._id(segment, start)  # noqa: A001, it is one
        is_second = self._first_reads.note(id, start, end)
        if not is_second and readers < self._min_reads:
            return None
        extent = self._extents.get(id)
        gaps = [(start, end)] if extent is None else extent.gaps(start, end)
        wanted_bytes = sum(stop - begin for begin, stop in gaps)
        if not gaps or (extent is not None and len(extent.pieces) >= _PIECES_PER_EXTENT):
            return None
        if not self._make_room(wanted_bytes, keep=extent):
            return None
        if extent is None:
            self._extent_count += 1
            begin = id.ordinal * self._extent_bytes
            extent = Extent(id=id, number=self._extent_count, start=begin)
            self._extents.put(id, extent)
        self._extents.touch(id)
        pieces = [Piece(start=begin, end=stop) for begin, stop in gaps]
        for piece in pieces:
            insort(extent.pieces, piece, key=_start_of)
        extent.size_bytes += wanted_bytes
        self.used_bytes += wanted_bytes
        return extent, pieces

    def not_written(self, extent: Extent, pieces: list[Piece]) -> None:
        """Give back the space of pieces that could not be written."""
        for piece in pieces:
            extent.pieces.remove(piece)
            extent.size_bytes -= piece.end - piece.start
            self.used_bytes -= piece.end - piece.start

    def forget(self, file: Hashable) -> None:
        """Drop everything of a file that was removed or replaced."""
        self._generations.pop(file, None)
        self._drop_extents_of(file)

    def drop_all(self) -> None:
        """Drop all extents, because the cache directory cannot be used."""
        for extent in list(self._extents):
            self._drop(extent)

    def take_dropped(self) -> list[Extent]:
        """Return the dropped extents that nothing uses any more, each once."""
        free = [extent for extent in self._dropped if not extent.holds]
        self._dropped = [extent for extent in self._dropped if extent.holds]
        self.used_bytes -= sum(extent.size_bytes for extent in free)
        return free

    def _id(self, segment: Segment, start: int) -> ExtentId:
        return ExtentId(segment, start // self._extent_bytes)

    def _is_current(self, segment: Segment) -> bool:
        known = self._generations.get(segment.file, segment.generation)
        if segment.generation < known:
            return False
        if segment.generation > known:
            self._drop_extents_of(segment.file)
        self._generations[segment.file] = segment.generation
        return True

    def _drop_extents_of(self, file: Hashable) -> None:
        self._first_reads.forget(file)
        for id in self._extents.ids_of(file):  # noqa: A001, it is one
            extent = self._extents.get(id)
            assert extent is not None
            self._drop(extent)

    def _make_room(self, wanted_bytes: int, *, keep: Extent | None) -> bool:
        """Evict what is necessary, and nothing if that would not be enough."""
        unused_bytes = sum(extent.size_bytes for extent in self._dropped if not extent.holds)
        excess = self.used_bytes - unused_bytes + wanted_bytes - self.limit_bytes
        victims = []
        for extent in self._extents:
            if excess <= 0:
                break
            if not extent.holds and extent is not keep:
                victims.append(extent)
                excess -= extent.size_bytes
        if excess > 0:
            return False
        for victim in victims:
            self._drop(victim)
            self.eviction_count += 1
        return True

    def _drop(self, extent: Extent) -> None:
        self._extents.remove(extent.id)
        extent.is_dropped = True
        self._dropped.append(extent)
