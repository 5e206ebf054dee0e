"""Where the last few batches of a log lie, for readers that follow its end.

The index has an entry every few kilobytes, and between two entries the headers are read one by one.
Of small batches there are dozens, and a consumer at the end of the log would pay for them with
every record. What a reader would get wrong: this knows only what was appended since the log was
opened or last cut, and nothing of what it has forgotten, so None does not mean that there is no
such batch.
"""

from bisect import bisect_left
from typing import Final

# Forgotten by halves, since to forget one by one would mean to move all others each time.
_KEPT: Final = 32


class RecentBatches:
    """The last offset and the position of each, in order."""

    __slots__ = ("_last_offsets", "_positions")

    def __init__(self) -> None:
        self._last_offsets: list[int] = []
        self._positions: list[int] = []

    def add(self, last_offset: int, position: int) -> None:
        offsets, positions = self._last_offsets, self._positions
        if len(offsets) >= 2 * _KEPT:
            del offsets[:_KEPT], positions[:_KEPT]
        offsets.append(last_offset)
        positions.append(position)

    def find(self, offset: int, size_bytes: int) -> tuple[int, int] | None:
        """Where the first batch that ends at or after the offset begins and ends, if it is known.

        `size_bytes` is that of the segment, which is where the last batch ends.
        """
        offsets, positions = self._last_offsets, self._positions
        index = bisect_left(offsets, offset)
        count = len(offsets)
        # Below the first one there may be others, unless it is the first of the segment.
        if index == count or (not index and positions[0]):
            return None
        end = positions[index + 1] if index + 1 < count else size_bytes
        return positions[index], end

    def clear(self) -> None:
        self._last_offsets.clear()
        self._positions.clear()
