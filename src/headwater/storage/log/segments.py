"""LogSegments: the segments of a log by base offset; the last is active.

A segment is found by binary search over the base offsets.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from headwater.storage.log.segment import LogSegment


class LogSegments:
    """Never empty once the log is open."""

    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: Sequence[LogSegment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __getitem__(self, index: int) -> LogSegment:
        return self._segments[index]

    @property
    def active(self) -> LogSegment:
        return self._segments[-1]

    @property
    def first(self) -> LogSegment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def index_of(self, offset: int) -> int:
        """Return the index of the segment that holds the offset; 0 for a lower one."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def since(self, offset: int) -> list[LogSegment]:
        """Return the segment that holds the offset and all later ones."""
        return self._segments[self.index_of(offset) :]

    def add(self, segment: LogSegment) -> None:
        assert not self._bases or segment.base_offset > self._bases[-1], "segments come in order"
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove(self, segments: Sequence[LogSegment]) -> None:
        for segment in segments:
            place = bisect_left(self._bases, segment.base_offset)
            assert self._segments[place] is segment, "only a segment of this log can be removed"
            del self._segments[place]
            del self._bases[place]

    def replace(self, old: Sequence[LogSegment], new: Sequence[LogSegment]) -> None:
        """Replace the compacted segments with the result of a compaction."""
        self.remove(old)
        for segment in new:
            place = bisect_left(self._bases, segment.base_offset)
            self._segments.insert(place, segment)
            self._bases.insert(place, segment.base_offset)
