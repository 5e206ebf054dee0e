"""OffsetIndex: the `.index` file of a segment, from offset to file position.

    entry of 8 bytes: relative offset int32 | position int32

An entry holds the *last* offset of a batch and the position where that same batch *starts*. So the
entry at or below an offset is a position from which to scan forward, not the batch itself.
"""

import struct

from headwater.storage.index.index_file import IndexFile

_LAYOUT = struct.Struct(">ii")


class OffsetIndex(IndexFile):
    """Sparse: one entry for about every `index.interval.bytes` of log."""

    __slots__ = ()
    layout = _LAYOUT

    @property
    def room(self) -> int:
        """Number of entries that still fit."""
        return self._max_entries - len(self)

    def add(self, last_offset: int, position: int) -> None:
        self.append(last_offset - self._base_offset, position)

    def position_before(self, offset: int) -> int:
        """Return the position of a batch at or before the one that holds the offset."""
        relative = offset - self._base_offset
        slot = self.slot_before(lambda entry: entry[0] > relative)
        return self.entry(slot)[1] if slot >= 0 else 0

    def offset_at_or_after(self, position: int) -> int | None:
        """Return the last offset of the first indexed batch at or after the position."""
        slot = self.slot_before(lambda entry: entry[1] >= position) + 1
        return self._base_offset + self.entry(slot)[0] if slot < len(self) else None

    def last_position(self) -> int:
        """Return the position of the last indexed batch."""
        last = self.last()
        return last[1] if last else 0

    def truncate_from(self, offset: int) -> None:
        """Drop the entries of batches that contain the offset or come after it."""
        relative = offset - self._base_offset
        self.truncate(self.slot_before(lambda entry: entry[0] >= relative) + 1)

    def is_sane(self, log_size: int) -> bool:
        """Return whether the last entry is plausible for a log of this size."""
        if not self.has_whole_entries:
            return False
        last = self.last()
        return last is None or (last[0] >= 0 and 0 < last[1] < log_size)
