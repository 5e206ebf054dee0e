"""Range of bytes in a segment file, like Kafka's FileRecords.

Nothing has been read yet. To keep a range beyond the current call, hold its file: the open-file
cache may close it and retention may delete it.
"""

from typing import NamedTuple

from headwater.storage.io.open_files import CachedFile


class FileRange(NamedTuple):
    """Bytes `position` to `position + length` of a file."""

    file: CachedFile
    position: int
    length: int

    def fileno(self) -> int:
        """Return the descriptor for sendfile; valid while the range is held."""
        return self.file.file().fileno()

    def release(self) -> None:
        """Release the hold that came with the delivered range."""
        self.file.release()

    def read(self) -> bytes:
        """Return the bytes, for tools and tests; the broker sends without reading."""
        return self.file.file().read(self.length, self.position)
