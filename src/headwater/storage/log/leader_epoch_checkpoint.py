"""LeaderEpochFileCache: the start offset of each leader epoch of a log.

    offset   0        100            250
    epoch    |-- 0 --|----- 3 ------|-- 4 --> log end

Stored in `leader-epoch-checkpoint`. Both columns rise strictly. Two replicas use it to find where
their logs diverge: an epoch ends where the next known one starts (KIP-101).

Note: a new epoch and a truncation at the end must be on disk before the next batch is appended. A
lost new epoch would give wrong OffsetForLeaderEpoch responses forever, and a lost truncation would
leave an epoch that starts among the records of another one. Kafka 3.9 writes the truncation in the
background and accepts that window; truncations are rare, so here the log saves immediately
(`assign` and `truncate_from_end` return when to). A truncation at the start may wait, because
loading trims to the log start anyway (RC-3).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import PurePath
from typing import NamedTuple

from headwater.common.exceptions import CorruptFile
from headwater.common.ids import NO_EPOCH
from headwater.storage.io.disk import Disk, read_whole, write_atomically
from headwater.storage.log_manager.checkpoints import (
    INT32_MAX,
    INT64_MAX,
    decode_lines,
    encode_lines,
    parse_number,
)

FILE_NAME = "leader-epoch-checkpoint"
NO_END_OFFSET = -1


class EpochEntry(NamedTuple):
    """Epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Result of OffsetForLeaderEpoch: an epoch and the offset after its last record."""

    epoch: int
    end_offset: int


UNKNOWN_END = EpochEnd(NO_EPOCH, NO_END_OFFSET)


class LeaderEpochFileCache:
    """Leader epochs of a log, oldest first; `unsaved` while the file is behind."""

    __slots__ = ("_epochs", "_start_offsets", "unsaved")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.unsaved = False

    @property
    def latest(self) -> int:
        """Newest epoch, or -1 if none is known."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._start_offsets, strict=True)]

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record the start of an epoch; return True if the file must be saved (EP-2).

        Called for every batch, and nearly always for the latest epoch. Entries that contradict the
        new one were never committed and are removed. A batch without a leader epoch (-1) is
        ignored.
        """
        assert start_offset >= 0, f"leader epoch {epoch} cannot begin at offset {start_offset}"
        if epoch < 0:
            return False
        if self._epochs and self._epochs[-1] == epoch and self._start_offsets[-1] <= start_offset:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._start_offsets, start_offset))
        self._keep_first(keep)
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.unsaved = True
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the largest epoch up to the requested one, and its end offset (EP-3)."""
        if epoch == NO_EPOCH or epoch > self.latest or not self._epochs:
            return UNKNOWN_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        above = bisect_right(self._epochs, epoch)
        # Records below the first known epoch are deleted. Returning the requested epoch itself
        # makes the follower start from the log start.
        known = self._epochs[above - 1] if above else epoch
        return EpochEnd(known, self._start_offsets[above])

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch of the record at an offset, or -1 below the first one."""
        index = bisect_right(self._start_offsets, offset)
        return self._epochs[index - 1] if index else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove epochs from an offset on; return True if the file must be saved."""
        keep = bisect_left(self._start_offsets, end_offset)
        if keep == len(self._epochs):
            return False
        self._keep_first(keep)
        self.unsaved = True
        return True

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs before an offset; the one that spans it now starts there."""
        spanning = bisect_right(self._start_offsets, start_offset) - 1
        if spanning < 0 or (spanning == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:spanning]
        del self._start_offsets[:spanning]
        self._start_offsets[0] = start_offset
        self.unsaved = True

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Replace all entries, with those of another copy of the log."""
        self._keep_first(0)
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.unsaved = True

    def clear(self) -> None:
        self.unsaved = self.unsaved or bool(self._epochs)
        self._keep_first(0)

    def encode(self) -> bytes:
        """Return the content of the checkpoint file."""
        return encode_lines(f"{epoch} {start}" for epoch, start in self.entries())

    def _keep_first(self, keep: int) -> None:
        del self._epochs[keep:]
        del self._start_offsets[keep:]


def decode(content: bytes) -> LeaderEpochFileCache:
    """Parse the content of the checkpoint file, or raise `CorruptFile`."""
    return LeaderEpochFileCache(map(_parse_line, decode_lines(content)))


def load(disk: Disk, folder: PurePath) -> LeaderEpochFileCache:
    """Read a partition's epochs; empty if there is no file. May raise `CorruptFile`.

    The file may be ahead of the log: trim it to the log start and log end before use (RC-3).
    """
    return decode(read_whole(disk, folder / FILE_NAME) or b"")


def save(disk: Disk, folder: PurePath, epochs: LeaderEpochFileCache) -> None:
    """Write the file and sync it.

    To sync off the event loop, pass `encode()` to `write_atomically` in a job instead, one job at a
    time: older content must not overwrite newer.
    """
    write_atomically(disk, folder / FILE_NAME, epochs.encode())
    epochs.unsaved = False


def _parse_line(line: str) -> EpochEntry:
    fields = line.split(" ")
    if len(fields) != 2:
        raise CorruptFile(f"not a leader epoch and its start offset: {line[:80]!r}")
    return EpochEntry(parse_number(fields[0], INT32_MAX), parse_number(fields[1], INT64_MAX))
