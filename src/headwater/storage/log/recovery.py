"""Recover a log after a crash: truncate at the first bad batch (RC-1).

Note: the kernel checks most batches, in runs (`records.kernel.batch_runs`).
`RecoveryChecker.accept` sees only the batches at which such a run ends, and must reject everything
that a run would.
"""

import zlib
from dataclasses import dataclass, field

from headwater.common.exceptions import BatchError, CorruptBatch, UnsupportedMagic
from headwater.records.batch_header import LENGTH_END, MAGIC_POSITION, BatchHeader
from headwater.records.checksum import check_crc
from headwater.storage.log.leader_epoch_checkpoint import EpochEntry, LeaderEpochFileCache
from headwater.storage.log.local_log import LocalLog
from headwater.storage.log.segment import LogSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointedState:
    """Checkpointed offsets of one log."""

    was_clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    first_dirty_offset: int | None = None
    # No recovery-point checkpoint exists at all, as in a copy of another broker's directories.
    is_foreign: bool = False


@dataclass(slots=True)
class LoadReport:
    """Repairs made while loading, for the broker's log."""

    recovered_segments: int = 0
    rebuilt_indexes: int = 0
    cut_bytes: int = 0
    dropped_segments: int = 0
    reasons: list[str] = field(default_factory=list)


def recover(
    log: LocalLog,
    epochs: LeaderEpochFileCache,
    first: int,
    checkpointed: CheckpointedState,
    report: LoadReport,
) -> None:
    """Check segments from the first unflushed one; truncate at a bad batch.

    A gap between two unflushed segments counts as bad too: the first may have lost its last batches
    at a batch boundary, which nothing else would show. A log with a gap would never be repaired,
    while one that ends there fetches the rest again. Headwater's own segments have no gaps between
    them. Kafka's compaction leaves gaps, and the recovery point it left on disk may be a minute
    older than they are. So a gap is accepted in the compacted part, and everywhere if there are no
    checkpoints that say which part that is.
    """
    compacted_up_to = checkpointed.first_dirty_offset or 0
    compacted_epochs = [each for each in epochs.entries() if each.start_offset < compacted_up_to]
    epochs.truncate_from_end(log.segments[first].base_offset)
    checker = RecoveryChecker(epochs, compacted_epochs, log.segments[first].base_offset)
    for index in range(first, len(log.segments)):
        segment = log.segments[index]
        size = segment.size
        gap = segment.base_offset - checker.next_offset
        is_compacted = segment.base_offset <= compacted_up_to or checkpointed.is_foreign
        if gap < 0 or (gap and not is_compacted):
            report.reasons.append(
                f"{segment.log.path.name} does not follow offset {checker.next_offset}"
            )
            _truncate(log, index - 1, report)
            return
        error = segment.rebuild(checker)
        report.recovered_segments += 1
        if error is not None:
            _raise_for_old_format(segment, error)
            report.reasons.append(f"{segment.log.path.name} at {segment.size}: {error}")
            report.cut_bytes += size - segment.size
            _truncate(log, index, report)
            return


class RecoveryChecker:
    """Check that every batch of an unflushed segment must pass."""

    def __init__(
        self, epochs: LeaderEpochFileCache, compacted_epochs: list[EpochEntry], start_offset: int
    ) -> None:
        self._epochs = epochs
        self._compacted_epochs = compacted_epochs
        self.next_offset = start_offset

    @property
    def leader_epoch(self) -> int:
        return self._epochs.latest

    def accept(self, header: BatchHeader, content: memoryview) -> None:
        check_crc(content, header)
        if header.base_offset < self.next_offset:
            raise CorruptBatch(f"offset {header.base_offset} goes back below {self.next_offset}")
        # After a truncation old bytes may follow new ones, complete and with a valid CRC; but the
        # records that replace a truncated tail always have a later epoch.
        if 0 <= header.leader_epoch < self._epochs.latest:
            raise CorruptBatch(
                f"leader epoch {header.leader_epoch} follows epoch {self._epochs.latest}"
            )
        if header.leader_epoch > self._epochs.latest:
            self._begin_epoch(header)
        self.next_offset = header.next_offset

    def _begin_epoch(self, header: BatchHeader) -> None:
        """Assign the batch's epoch, at the start offset that the checkpoint knows.

        Compaction may have removed an epoch's first records, or all of them. A later start offset
        would tell followers that the previous epoch went on, and they would keep uncommitted
        records.
        """
        for entry in self._compacted_epochs:
            is_among = self.next_offset <= entry.start_offset <= header.base_offset
            if is_among and self._epochs.latest < entry.epoch <= header.leader_epoch:
                self._epochs.assign(entry.epoch, entry.start_offset)
        self._epochs.assign(header.leader_epoch, header.base_offset)


def _truncate(log: LocalLog, index: int, report: LoadReport) -> None:
    """Delete the later segments, then truncate the bad tail."""
    later = [log.segments[each] for each in range(index + 1, len(log.segments))]
    report.dropped_segments += len(later)
    report.cut_bytes += sum(segment.size for segment in later)
    log.drop_tail(later)
    segment = log.segments.active
    file = segment.log.file()
    file.truncate(segment.size)
    file.sync()


def _raise_for_old_format(segment: LogSegment, error: BatchError) -> None:
    """Raise `UnsupportedMagic` for formats 0 and 1: truncating would destroy data."""
    if not isinstance(error, UnsupportedMagic):
        return
    file = segment.log.file()
    start = file.read(MAGIC_POSITION, segment.size)
    length = int.from_bytes(start[8:LENGTH_END], "big", signed=True)
    message = file.read(max(length, 0), segment.size + LENGTH_END)
    crc, content = message[:4], message[4:]
    if length > 4 and len(message) == length and zlib.crc32(content) == int.from_bytes(crc, "big"):
        raise UnsupportedMagic(f"{segment.log.path}: {error}")
