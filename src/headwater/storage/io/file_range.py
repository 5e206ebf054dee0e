"""A run of bytes in a segment file: what a read of the log answers with.

Nothing has been read yet. Whoever keeps a range beyond the moment must hold its file, because the
cache of open files may close it and retention may drop it.
"""

from typing import NamedTuple

from headwater.storage.io.open_files import CachedFile


class FileRange(NamedTuple):
    """Bytes `position` to `position + length` of a file."""

    file: CachedFile
    position: int
    length: int

    def fileno(self) -> int:
        """The descriptor to send from; good for as long as the range is held."""
        return self.file.file().fileno()

    def release(self) -> None:
        """End the hold that came with a delivery."""
        self.file.release()

    def read(self) -> bytes:
        """The bytes, for tools and tests; the broker sends the range without reading it."""
        return self.file.file().read(self.length, self.position)
