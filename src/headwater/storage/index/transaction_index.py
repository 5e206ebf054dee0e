"""TransactionIndex: a segment's `.txnindex` file of aborted transactions.

    byte 0  version             int16   0
         2  producer id         int64
        10  first offset        int64
        18  last offset         int64   the ABORT marker's; rises from entry to entry
        26  last stable offset  int64   when the marker was written; never falls

An entry is in the segment that holds the marker, so a transaction that began segments earlier is
found by reading on from the fetched segment. Only the number of entries is kept in memory: entries
have one size and are sorted, so a lookup is a binary search in the file. Most segments have no
aborted transaction and hence no file.

Invariant: the file and its name are durable before the recovery point passes the segment. Without
its entry, an aborted transaction would be read as committed.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple

from headwater.common.exceptions import CorruptFile
from headwater.storage.io.disk import Disk, File

SUFFIX = ".txnindex"
VERSION = 0

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
assert ENTRY_BYTES == 34

_LAST_OFFSET = struct.Struct(">q")
_LAST_OFFSET_POSITION = 18
_ENTRIES_PER_READ = 1024


class AbortedTransaction(NamedTuple):
    """Aborted transaction; `last_offset` is the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Transaction index of one segment; update `path` when it is renamed."""

    __slots__ = ("_base_offset", "_count", "_disk", "path")

    def __init__(self, disk: Disk, path: PurePath, base_offset: int) -> None:
        """Open the file if it exists; an incomplete entry raises `CorruptFile`."""
        self._disk = disk
        self.path = path
        self._base_offset = base_offset
        status = disk.status(path)
        self._count, torn_bytes = divmod(0 if status is None else status.size, ENTRY_BYTES)
        if torn_bytes:
            raise CorruptFile(f"{path} ends {torn_bytes} bytes into an entry")

    def __len__(self) -> int:
        return self._count

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker was just written. Not durable by itself."""
        file = self._disk.open(self.path, create=True)
        try:
            file.write([_ENTRY.pack(VERSION, *aborted)], self._count * ENTRY_BYTES)
        finally:
            file.close()
        self._count += 1

    def entries(self) -> list[AbortedTransaction]:
        if not self._count:
            return []
        file = self._disk.open(self.path)
        try:
            return list(self._read_from(file, 0))
        finally:
            file.close()

    def check(self, end_offset: int) -> None:
        """Raise `CorruptFile` unless all entries end before `end_offset` (RC-1)."""
        previous = self._base_offset - 1
        for aborted in self.entries():
            if not previous < aborted.last_offset < end_offset:
                raise CorruptFile(
                    f"{self.path} has a marker at offset {aborted.last_offset}, which is not "
                    f"between {previous} and {end_offset}"
                )
            if not 0 <= aborted.first_offset < aborted.last_offset:
                raise CorruptFile(f"{self.path} has a transaction that ends before it begins")
            previous = aborted.last_offset

    def collect(
        self, fetch_offset: int, upper_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """Return aborted transactions in [fetch, upper), and whether that is all."""
        found: list[AbortedTransaction] = []
        if not self._count:
            return found, False
        file = self._disk.open(self.path)
        try:
            for aborted in self._read_from(file, self._first_ending_at(file, fetch_offset)):
                if aborted.first_offset < upper_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= upper_offset:
                    return found, True
            return found, False
        finally:
            file.close()

    def truncate_to(self, offset: int) -> None:
        """Remove transactions whose marker is at or after an offset."""
        if not self._count:
            return
        file = self._disk.open(self.path)
        try:
            self._count = self._first_ending_at(file, offset)
            file.truncate(self._count * ENTRY_BYTES)
        finally:
            file.close()
        if not self._count:
            self._disk.remove(self.path)

    def open_for_sync(self) -> File | None:
        """Open the file for a sync job, which closes it. None without entries."""
        return self._disk.open(self.path) if self._count else None

    def sync(self) -> None:
        """Sync the entries. The file's name needs a sync of its directory."""
        file = self.open_for_sync()
        if file is not None:
            try:
                file.sync()
            finally:
                file.close()

    def _first_ending_at(self, file: File, offset: int) -> int:
        def last_offset(index: int) -> int:
            position = index * ENTRY_BYTES + _LAST_OFFSET_POSITION
            content = self._read_fully(file, _LAST_OFFSET.size, position)
            return int(_LAST_OFFSET.unpack(content)[0])

        return bisect_left(range(self._count), offset, key=last_offset)

    def _read_from(self, file: File, index: int) -> Iterator[AbortedTransaction]:
        for start in range(index, self._count, _ENTRIES_PER_READ):
            count = min(_ENTRIES_PER_READ, self._count - start)
            content = self._read_fully(file, count * ENTRY_BYTES, start * ENTRY_BYTES)
            for version, *fields in _ENTRY.iter_unpack(content):
                if version != VERSION:
                    raise CorruptFile(f"{self.path} has an entry of version {version}")
                yield AbortedTransaction(*fields)

    def _read_fully(self, file: File, length: int, position: int) -> bytes:
        content = file.read(length, position)
        if len(content) < length:
            raise CorruptFile(f"{self.path} became shorter than its {self._count} entries")
        return content


def collect_aborted(
    indexes: Iterable[TransactionIndex], *, fetch_offset: int, upper_offset: int
) -> list[AbortedTransaction]:
    """Return aborted transactions in [fetch, upper), for read_committed (LSO-2).

    Pass the indexes from the segment of the fetch offset on, oldest first. The walk ends at the
    first entry that was written when every transaction below the upper offset had ended.
    """
    found: list[AbortedTransaction] = []
    for index in indexes:
        more, complete = index.collect(fetch_offset, upper_offset)
        found += more
        if complete:
            break
    return found
