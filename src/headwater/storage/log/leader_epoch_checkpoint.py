"""Which leader epoch began at which offset, in one partition's log.

    offset   0        100            250
    epoch    |-- 0 --|----- 3 ------|-- 4 --> log end

Both columns rise strictly. With this, two replicas find where their logs part ways: the end of an
epoch is where the next known one begins (KIP-101).

What a reader would get wrong is when the file must follow. A new epoch and a cut at the end have to
be on disk before the next batch is appended: a lost new epoch would be answered wrongly for ever,
and a forgotten cut would leave an epoch that starts amid records of another one. Kafka 3.9 writes
the cut in the background and accepts that window; cuts are rare, so here the log saves at once
(`assign` and `truncate_from_end` say when). A cut at the start may wait, because loading
trims to the log start anyway (RC-3).
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
    """An epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer to OffsetForLeaderEpoch: an epoch and the offset after its last record."""

    epoch: int
    end_offset: int


UNKNOWN_END = EpochEnd(NO_EPOCH, NO_END_OFFSET)


class LeaderEpochFileCache:
    """The epochs of one log, oldest first. `unsaved` says that the file is behind."""

    __slots__ = ("_epochs", "_start_offsets", "unsaved")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.unsaved = False

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 when none is known."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._start_offsets, strict=True)]

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that an epoch begins at an offset; True when the file must be saved (EP-2).

        Called for every batch, and nearly always for the epoch that is already the latest. An
        entry that contradicts the new one was never agreed on by the cluster, so it goes. A batch
        from before there were epochs carries -1 and says nothing.
        """
        assert start_offset >= 0, f"leader epoch {epoch} cannot begin at offset {start_offset}"
        if epoch < 0:
            return False
        if self._epochs and self._epochs[-1] == epoch and self._start_offsets[-1] <= start_offset:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._start_offsets, start_offset))
        self._cut(keep)
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.unsaved = True
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest known epoch up to the asked one, and where that one ends (EP-3)."""
        if epoch == NO_EPOCH or epoch > self.latest or not self._epochs:
            return UNKNOWN_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        above = bisect_right(self._epochs, epoch)
        # Below the first known epoch the records are deleted: the follower then starts from what
        # is left, which the echo of its own epoch tells it.
        known = self._epochs[above - 1] if above else epoch
        return EpochEnd(known, self._start_offsets[above])

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch in which the record at an offset was written, or -1 below the first one."""
        index = bisect_right(self._start_offsets, offset)
        return self._epochs[index - 1] if index else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that begin at or after an offset; True when the file must be saved."""
        keep = bisect_left(self._start_offsets, end_offset)
        if keep == len(self._epochs):
            return False
        self._cut(keep)
        self.unsaved = True
        return True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that ended before an offset; the one that spans it now begins there."""
        spanning = bisect_right(self._start_offsets, start_offset) - 1
        if spanning < 0 or (spanning == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:spanning]
        del self._start_offsets[:spanning]
        self._start_offsets[0] = start_offset
        self.unsaved = True

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Know just these, as another copy of the log does."""
        self._cut(0)
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.unsaved = True

    def clear(self) -> None:
        self.unsaved = self.unsaved or bool(self._epochs)
        self._cut(0)

    def encode(self) -> bytes:
        """The content of the checkpoint file."""
        return encode_lines(f"{epoch} {start}" for epoch, start in self.entries())

    def _cut(self, keep: int) -> None:
        del self._epochs[keep:]
        del self._start_offsets[keep:]


def decode(content: bytes) -> LeaderEpochFileCache:
    """Epochs from the content of the checkpoint file, or `CorruptFile`."""
    return LeaderEpochFileCache(map(_parse_line, decode_lines(content)))


def load(disk: Disk, folder: PurePath) -> LeaderEpochFileCache:
    """Read a partition's epochs; a log without the file has none. May raise `CorruptFile`.

    The file may know more than the log: trim to the log start and the log end before use (RC-3).
    """
    return decode(read_whole(disk, folder / FILE_NAME) or b"")


def save(disk: Disk, folder: PurePath, epochs: LeaderEpochFileCache) -> None:
    """Write the file and return when it would survive a power cut.

    To sync off the loop, hand `encode()` to `write_atomically` in a job instead, one job at a time:
    an older content must not land on top of a newer one.
    """
    write_atomically(disk, folder / FILE_NAME, epochs.encode())
    epochs.unsaved = False


def _parse_line(line: str) -> EpochEntry:
    fields = line.split(" ")
    if len(fields) != 2:
        raise CorruptFile(f"not a leader epoch and its start offset: {line[:80]!r}")
    return EpochEntry(parse_number(fields[0], INT32_MAX), parse_number(fields[1], INT64_MAX))
