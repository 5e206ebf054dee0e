"""Positions of the next batch for consumers that read cold data sequentially.

A response usually ends inside a batch, and the next fetch starts with that batch. Its header was in
the last response, so its position and size need not be read again: by now that page has left the
page cache, and the event loop would wait for the disk.

Note: only single batches are known, so an offset is found only if it is the base offset of one.
"""

from typing import Final

from headwater.records.batch_header import BatchHeader

# Number of consumers that can read one segment concurrently without evicting each other's hints.
_KEPT: Final = 8


class SequentialReadHints:
    """A few batches by base offset."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int]] = {}

    def add(self, position: int, header: BatchHeader) -> None:
        places = self._places
        # The oldest is evicted first; adding an entry again makes it the newest.
        places.pop(header.base_offset, None)
        if len(places) >= _KEPT:
            del places[next(iter(places))]
        places[header.base_offset] = (position, position + header.size_bytes)

    def find(self, offset: int) -> tuple[int, int] | None:
        """Return start and end of the batch with this base offset, if known."""
        return self._places.get(offset)

    def clear(self) -> None:
        self._places.clear()
