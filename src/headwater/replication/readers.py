"""Who hears that there is more to read in a partition.

What a reader would get wrong: a consumer may read what is committed, and a follower all there is.
So the same append is told to followers at once, and to consumers perhaps later.
"""

from typing import Protocol


class Reader(Protocol):
    """A request that waits for bytes to read."""

    def more_to_read(self, size_bytes: int) -> None:
        """So many bytes more can be read, or, with 0, something else has changed."""


class Tail(Protocol):
    """A follower that fetches from here."""

    def appended(self, size_bytes: int) -> None:
        """So many bytes more can be fetched."""

    def moved(self) -> None:
        """The high watermark or the log's start is another, which can wait for the next answer."""

    def changed(self) -> None:
        """Something else has changed: look again."""
