"""File of fixed-size, rising entries: Kafka's AbstractIndex.

Entries are appended to a short tail in memory, written with `pwrite`, and looked up in a read-only
map of the file. Nothing is ever stored through the map: on a full disk, a store into a mapped hole
kills the process.

Note: the file may lag behind the tail. An index on disk is complete only after `write_out`, and a
new one has no file before that. This is safe, because after a crash the indexes of every unflushed
segment are rebuilt.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import PurePath
from typing import ClassVar

from headwater.storage.io.open_files import CachedFile, OpenFiles

# Few enough that thousands of idle partitions use little memory, many enough that a busy one does
# not write its index with every append.
_TAIL_ENTRIES = 64

Entry = tuple[int, int]


class IndexFile:
    """Pairs of integers in a file, addressed by slot. Subclasses define the layout."""

    layout: ClassVar[struct.Struct]

    __slots__ = (
        "_base_offset",
        "_cached",
        "_files",
        "_is_made",
        "_is_torn",
        "_max_entries",
        "_tail",
        "_written",
    )

    def __init__(
        self, files: OpenFiles, path: PurePath, *, base_offset: int, max_bytes: int
    ) -> None:
        self._base_offset = base_offset
        self._max_entries = max_bytes // self.layout.size
        self._files = files
        self._cached = files.open(path)
        self._tail: list[Entry] = []
        self._written: int | None = None
        self._is_made = True
        # A failed write may have left a part of its bytes beyond the entries that count.
        self._is_torn = False

    def __len__(self) -> int:
        return self._written_count() + len(self._tail)

    def begin(self) -> None:
        """Start an empty index; the file is created or truncated at the first write.

        Most of ten thousand new partitions stay empty for long, and their cost is mostly files.
        """
        self._cached.drop_view()
        self._tail.clear()
        self._written = 0
        self._is_made = False

    def append(self, first: int, second: int) -> None:
        self._tail.append((first, second))
        if len(self._tail) >= _TAIL_ENTRIES:
            self.write_out()

    def entry(self, slot: int) -> Entry:
        written = self._written_count()
        if slot >= written:
            return self._tail[slot - written]
        return self._entry_on_disk(self._cached.view(written * self.layout.size), slot)

    def last(self) -> Entry | None:
        if self._tail:
            return self._tail[-1]
        count = self._written_count()
        return self.entry(count - 1) if count else None

    def slot_before(self, is_beyond: Callable[[Entry], bool]) -> int:
        """Return the last slot whose entry is not beyond, or -1 (monotonic `is_beyond`)."""
        written = self._written_count()
        if self._tail and not is_beyond(self._tail[0]):
            return written + _count_until(self._tail.__getitem__, len(self._tail), is_beyond) - 1
        if not written:
            return -1
        view = self._cached.view(written * self.layout.size)
        return _count_until(lambda slot: self._entry_on_disk(view, slot), written, is_beyond) - 1

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        written = self._written_count()
        if count >= written:
            del self._tail[count - written :]
            return
        self._tail.clear()
        self._cached.drop_view()
        self._cached.file().truncate(count * self.layout.size)
        self._written = count

    def write_out(self) -> None:
        """Write the tail to the file, creating the file if needed."""
        if not self._is_made:
            self._make()
        written = self._written_count()
        if self._is_torn:
            self._cached.drop_view()
            self._cached.file().truncate(written * self.layout.size)
            self._is_torn = False
        if not self._tail:
            return
        content = b"".join(self.layout.pack(*entry) for entry in self._tail)
        self._is_torn = True
        self._cached.file().write([content], written * self.layout.size)
        self._is_torn = False
        self._written = written + len(self._tail)
        self._tail.clear()

    @property
    def size_bytes(self) -> int:
        return len(self) * self.layout.size

    @property
    def has_whole_entries(self) -> bool:
        return self._cached.file().size() % self.layout.size == 0

    @property
    def cached(self) -> CachedFile:
        return self._cached

    def _make(self) -> None:
        path = self._cached.path
        self._cached.forget()
        self._cached = self._files.open(path, create=True)
        self._cached.file().truncate(0)
        self._is_made = True

    def _entry_on_disk(self, view: memoryview, slot: int) -> Entry:
        first, second = self.layout.unpack_from(view, slot * self.layout.size)
        return (first, second)

    def _written_count(self) -> int:
        if self._written is None:
            self._written = self._count_real_entries()
        return self._written

    def _count_real_entries(self) -> int:
        """Count the entries before the zero tail that Kafka leaves if it dies."""
        view = self._cached.view()
        slots = len(view) // self.layout.size
        return _count_until(
            lambda slot: self._entry_on_disk(view, slot), slots, lambda entry: entry == (0, 0)
        )


def _count_until(entry: Callable[[int], Entry], count: int, stop: Callable[[Entry], bool]) -> int:
    """Return how many of the first `count` entries precede the first that stops."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if stop(entry(middle)):
            high = middle
        else:
            low = middle + 1
    return low
