"""Check that a segment's indexes agree with its log.

Both checks follow the walk of `log_check` batch by batch, so an index of any size is compared in
one pass.

Note: an entry may hold the last offset of a *later* batch than the one it points at. Brokers before
4.0 wrote one entry per append, with the append's first position and last offset; a lookup that
starts there still finds everything.
"""

import struct
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from headwater.storage.log.log_check import CheckedBatch, Finding, Readable, ReadWindow

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
ABORTED_ENTRY = struct.Struct(">hqqqq")

_ENTRIES_PER_READ = 4096


class IndexCheck(Protocol):
    """Receives each batch in turn, then the end of the log."""

    def after(self, batch: CheckedBatch) -> Iterator[Finding]: ...

    def at_end(self) -> Iterator[Finding]: ...


def entries_of(index: Readable, entry: struct.Struct) -> Iterator[tuple[int, int, int]]:
    """Yield position and both fields of each index entry, without the zero tail.

    An active index is preallocated, so zeros follow the last entry. No real entry is all zero,
    because the first batch of a segment is never indexed.
    """
    window = ReadWindow(index)
    end = window.size - window.size % entry.size
    stride = entry.size * _ENTRIES_PER_READ
    for start in range(0, end, stride):
        piece = window.read(start, min(stride, end - start))
        for slot, (first, second) in enumerate(entry.iter_unpack(piece)):
            if first == 0 and second == 0:
                return
            yield start + slot * entry.size, first, second


def file_problems(index: Readable, entry: struct.Struct, name: str) -> Iterator[Finding]:
    """Yield problems of a whole index file: its size, or bytes after the zero tail."""
    window = ReadWindow(index)
    if window.size % entry.size:
        reason = f"size {window.size} is not a multiple of {entry.size}, incomplete entry"
        yield Finding(file=name, position=window.size, reason=reason)
        return
    count = sum(1 for _ in entries_of(index, entry))
    if not window.is_zero_from(count * entry.size):
        reason = "entries follow after the zero tail"
        yield Finding(file=name, position=count * entry.size, reason=reason)


class AbortedEntry(NamedTuple):
    """Entry of a transaction index; `last_offset` is the offset of its ABORT marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def check_aborted(index: Readable, name: str) -> Iterator[AbortedEntry | Finding]:
    """Yield the entries of a transaction index, each followed by its problems."""
    size = ABORTED_ENTRY.size
    window = ReadWindow(index)
    last_marker, last_stable = -1, -1
    for position in range(0, window.size - size + 1, size):
        entry = AbortedEntry._make(ABORTED_ENTRY.unpack(window.read(position, size)))
        yield entry
        if entry.version != 0:
            reason = f"entry version {entry.version} instead of 0"
            yield Finding(file=name, position=position, reason=reason)
        elif entry.last_offset <= last_marker or entry.last_stable_offset < last_stable:
            reason = f"marker offset {entry.last_offset} or last stable offset does not increase"
            yield Finding(file=name, position=position, reason=reason)
        elif not 0 <= entry.first_offset < entry.last_offset:
            reason = f"a transaction from {entry.first_offset} cannot end at {entry.last_offset}"
            yield Finding(file=name, position=position, reason=reason)
        last_marker, last_stable = entry.last_offset, entry.last_stable_offset
    if window.size % size:
        reason = f"size {window.size} is not a multiple of {size}, incomplete entry"
        yield Finding(file=name, position=window.size - window.size % size, reason=reason)


class OffsetIndexCheck:
    """Checks that offset index entries rise, point at batches and match them."""

    def __init__(self, index: Readable, name: str, base_offset: int) -> None:
        self._name = name
        self._base_offset = base_offset
        self._entries = entries_of(index, OFFSET_ENTRY)
        self._next = next(self._entries, None)
        self._last = (-1, -1)
        # Offsets that no batch has ended with yet, with their position in the index.
        self._awaited: deque[tuple[int, int]] = deque()

    def after(self, batch: CheckedBatch) -> Iterator[Finding]:
        while self._next is not None and self._next[2] <= batch.position:
            yield from self._check(*self._next, batch)
            self._next = next(self._entries, None)
        while self._awaited and self._awaited[0][0] <= batch.header.last_offset:
            offset, at = self._awaited.popleft()
            if offset < batch.header.last_offset:
                yield self._finding(at, f"offset {offset} is not the last offset of a batch")

    def at_end(self) -> Iterator[Finding]:
        for offset, at in self._awaited:
            yield self._finding(at, f"offset {offset} is not the last offset of a batch")
        while self._next is not None:
            at, _, position = self._next
            yield self._finding(at, f"points at position {position}, past the last batch")
            self._next = next(self._entries, None)

    def _check(
        self, at: int, relative_offset: int, position: int, batch: CheckedBatch
    ) -> Iterator[Finding]:
        offset = self._base_offset + relative_offset
        if offset <= self._last[0] or position <= self._last[1]:
            yield self._finding(at, f"offset {offset}, position {position} do not increase")
            return
        self._last = (offset, position)
        if position < batch.position:
            yield self._finding(at, f"points at position {position}, where no batch begins")
        elif offset < batch.header.last_offset:
            yield self._finding(
                at,
                f"offset {offset} for position {position}, "
                f"whose batch ends with {batch.header.last_offset}",
            )
        elif offset > batch.header.last_offset:
            self._awaited.append((offset, at))

    def _finding(self, position: int, reason: str) -> Finding:
        return Finding(file=self._name, position=position, reason=reason)


class TimeIndexCheck:
    """Checks that time index entries rise and hold the largest timestamps."""

    def __init__(self, index: Readable, name: str, base_offset: int) -> None:
        self._name = name
        self._base_offset = base_offset
        self._entries = entries_of(index, TIME_ENTRY)
        self._next = next(self._entries, None)
        self._last = (-1, -1)
        self._largest_ms = -1
        self._trusted = True

    def after(self, batch: CheckedBatch) -> Iterator[Finding]:
        # The timestamps of a corrupt batch may be wrong, and so would be every check after it.
        self._trusted = self._trusted and batch.crc_matches
        self._largest_ms = max(self._largest_ms, batch.header.max_timestamp)
        while self._next is not None:
            at, timestamp_ms, relative_offset = self._next
            offset = self._base_offset + relative_offset
            if offset > batch.header.last_offset:
                return
            yield from self._check(at, timestamp_ms, offset)
            self._next = next(self._entries, None)

    def at_end(self) -> Iterator[Finding]:
        while self._next is not None:
            at, _, relative_offset = self._next
            offset = self._base_offset + relative_offset
            yield self._finding(at, f"offset {offset} is past the last batch")
            self._next = next(self._entries, None)

    def _check(self, at: int, timestamp_ms: int, offset: int) -> Iterator[Finding]:
        if timestamp_ms <= self._last[0] or offset <= self._last[1]:
            yield self._finding(at, f"timestamp {timestamp_ms}, offset {offset} do not increase")
            return
        self._last = (timestamp_ms, offset)
        if self._trusted and timestamp_ms != self._largest_ms:
            yield self._finding(
                at,
                f"timestamp {timestamp_ms} is not the largest up to offset {offset}, "
                f"which is {self._largest_ms}",
            )

    def _finding(self, position: int, reason: str) -> Finding:
        return Finding(file=self._name, position=position, reason=reason)
