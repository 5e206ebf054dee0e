"""Where the next batch lies for those who read cold data from one end to the other.

An answer mostly ends amid a batch, and begins again with it when the consumer comes back. Its
header was in the last answer, so where it lies and how long it is need not be read again: by now
that page has left the cache, and the loop would wait for the disk. What a reader would get wrong:
this knows single batches and nothing between them, so an offset is only found if it is just the
one that a batch begins with.
"""

from typing import Final

from headwater.records.batch_header import BatchHeader

# So many consumers may read one segment at a time before they forget each other's places.
_KEPT: Final = 8


class SequentialReadHints:
    """A few batches by their first offset."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int]] = {}

    def add(self, position: int, header: BatchHeader) -> None:
        places = self._places
        # The oldest goes first; one that is added again is young again.
        places.pop(header.base_offset, None)
        if len(places) >= _KEPT:
            del places[next(iter(places))]
        places[header.base_offset] = (position, position + header.size_bytes)

    def find(self, offset: int) -> tuple[int, int] | None:
        """Where the batch that begins with the offset begins and ends, if it is known."""
        return self._places.get(offset)

    def clear(self) -> None:
        self._places.clear()
