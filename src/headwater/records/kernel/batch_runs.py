"""Results of kernel functions that check contiguous batches of a log.

Note: the end of a run does not mean that the next batch is corrupt. It may be corrupt, or start a
new leader epoch, or only extend beyond the buffer. The caller checks that batch individually.
"""

from typing import NamedTuple

IndexEntry = tuple[int, int, int, int]
"""Last offset and position of a batch, the largest timestamp so far and its offset."""

BATCHES_REMEMBERED = 5
"""Number of batches per producer that are remembered to detect duplicates (IDP-2)."""


class IndexProgress(NamedTuple):
    """Index state of a segment between two batches."""

    largest_timestamp: int
    largest_offset: int
    """Last offset of the batch where that timestamp first occurred."""
    bytes_since_entry: int


class ValidRun(NamedTuple):
    """Valid contiguous batches and their index entries."""

    size_bytes: int
    next_offset: int
    progress: IndexProgress
    entries: list[IndexEntry]
