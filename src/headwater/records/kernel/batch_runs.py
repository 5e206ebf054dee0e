"""What the kernel says of batches that lie end to end in a log: how far they are sound, and more.

What a reader would get wrong: where a run ends is no verdict on what comes next. The batch there
may be damaged, or begin a new leader epoch, or only reach beyond the buffer. Whoever asked looks
at that one by itself.
"""

from typing import NamedTuple

IndexEntry = tuple[int, int, int, int]
"""A batch's last offset and position, the largest timestamp so far and the offset it belongs to."""

BATCHES_REMEMBERED = 5
"""How many of its last batches a producer may send again (IDP-2), so that they are remembered."""


class IndexProgress(NamedTuple):
    """What the sparse indexes of a segment have to know between two batches."""

    largest_timestamp: int
    largest_offset: int
    """The last offset of the batch in which that timestamp was first met."""
    bytes_since_entry: int


class SoundRun(NamedTuple):
    """Batches that follow each other, and the index entries that they get."""

    size_bytes: int
    next_offset: int
    progress: IndexProgress
    entries: list[IndexEntry]
