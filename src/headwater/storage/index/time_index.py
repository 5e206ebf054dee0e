"""TimeIndex: the `.timeindex` file of a segment, from timestamp to offset.

    entry of 12 bytes: timestamp int64 | relative offset int32

When an entry is written, its timestamp is the largest of the segment so far, first reached in the
batch that ends at the offset. So every larger timestamp is found after that offset; the entry says
nothing about the records before it.
"""

import struct

from headwater.storage.index.index_file import IndexFile

_LAYOUT = struct.Struct(">qi")


class TimeIndex(IndexFile):
    """Rising in both columns; one slot stays free for the last entry."""

    __slots__ = ()
    layout = _LAYOUT

    @property
    def room(self) -> int:
        """Number of entries that still fit."""
        return self._max_entries - len(self) - 1

    def add(self, timestamp: int, offset: int) -> None:
        """Add a new largest timestamp; skipped if not larger than the last."""
        last = self.last()
        relative = offset - self._base_offset
        if timestamp < 0 or (last and (timestamp <= last[0] or relative <= last[1])):
            return
        self.append(timestamp, relative)

    def largest(self) -> tuple[int, int] | None:
        """Return the last timestamp and its offset."""
        last = self.last()
        return (last[0], self._base_offset + last[1]) if last else None

    def offset_before(self, timestamp: int) -> int:
        """Return an offset such that no earlier record has a timestamp >= `timestamp`."""
        slot = self.slot_before(lambda entry: entry[0] >= timestamp)
        return self._base_offset + (self.entry(slot)[1] if slot >= 0 else 0)

    def truncate_from(self, offset: int) -> None:
        relative = offset - self._base_offset
        self.truncate(self.slot_before(lambda entry: entry[1] >= relative) + 1)
