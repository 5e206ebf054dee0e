"""Positions of a log's last few batches, for consumers that follow its end.

The index has an entry every few kilobytes, and between two entries the headers are read one by one.
Small batches come in dozens per entry, and a consumer at the end of the log would pay for that with
every fetch.

Note: only batches appended since the log was opened or last truncated are known, and old ones are
dropped, so None does not mean that there is no such batch.
"""

from bisect import bisect_left
from typing import Final

# Half of them are dropped at once, because dropping one by one would shift all others each time.
_KEPT: Final = 32


class RecentBatches:
    """Last offset and position of each batch, in order."""

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
        """Return start and end of the first batch ending at or after the offset.

        `size_bytes` is the size of the segment, which is where the last batch ends.
        """
        offsets, positions = self._last_offsets, self._positions
        index = bisect_left(offsets, offset)
        count = len(offsets)
        # There may be batches before the first known one, unless it is the first of the segment.
        if index == count or (not index and positions[0]):
            return None
        end = positions[index + 1] if index + 1 < count else size_bytes
        return positions[index], end

    def clear(self) -> None:
        self._last_offsets.clear()
        self._positions.clear()
