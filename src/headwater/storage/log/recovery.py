"""Checking what a crash left: which batches of the doubtful segments stay, and where the log ends.

The first batch that fails ends the log (RC-1), and what lies behind it is cut. What a reader would
get wrong: most batches are judged by the kernel, in runs (`records.kernel.batch_runs`).
`RecoveryChecker.accept` sees only those at which such a run ends, and it must refuse by itself
whatever a run would not take.
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
    """What the directory's checkpoints say of one log."""

    was_clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    first_dirty_offset: int | None = None
    # There is no checkpoint of recovery points at all, as in a copy of somebody's folders.
    is_foreign: bool = False


@dataclass(slots=True)
class LoadReport:
    """What loading had to repair, for the log file of the broker."""

    recovered_segments: int = 0
    rebuilt_indexes: int = 0
    cut_bytes: int = 0
    dropped_segments: int = 0
    reasons: list[str] = field(default_factory=list)


def recover(
    log: LocalLog,
    epochs: LeaderEpochFileCache,
    first: int,
    remembered: CheckpointedState,
    report: LoadReport,
) -> None:
    """Check all segments from the first doubtful one on; cut the log at the first bad batch.

    A hole between two doubtful segments is such a place too: the first may have lost its last
    batches at a boundary, where nothing else tells. A log with a hole would never be made whole,
    while one that ends there fetches the rest again. Our own segments follow each other closely.
    Kafka's compaction leaves holes, and the recovery point that it left on disk may be a minute
    older than they are. So a hole is taken for compaction's in the part that was compacted, and
    everywhere when there are no checkpoints that could say which part that is.
    """
    compacted_up_to = remembered.first_dirty_offset or 0
    settled = [each for each in epochs.entries() if each.start_offset < compacted_up_to]
    epochs.truncate_from_end(log.segments[first].base_offset)
    judge = RecoveryChecker(epochs, settled, log.segments[first].base_offset)
    for index in range(first, len(log.segments)):
        segment = log.segments[index]
        size = segment.size
        hole = segment.base_offset - judge.next_offset
        is_compacted = segment.base_offset <= compacted_up_to or remembered.is_foreign
        if hole < 0 or (hole and not is_compacted):
            report.reasons.append(
                f"{segment.log.path.name} does not follow offset {judge.next_offset}"
            )
            _cut(log, index - 1, report)
            return
        refusal = segment.rebuild(judge)
        report.recovered_segments += 1
        if refusal is not None:
            _refuse_old_format(segment, refusal)
            report.reasons.append(f"{segment.log.path.name} at {segment.size}: {refusal}")
            report.cut_bytes += size - segment.size
            _cut(log, index, report)
            return


class RecoveryChecker:
    """The test that every batch of a doubtful segment must pass."""

    def __init__(
        self, epochs: LeaderEpochFileCache, settled: list[EpochEntry], start_offset: int
    ) -> None:
        self._epochs = epochs
        self._settled = settled
        self.next_offset = start_offset

    @property
    def leader_epoch(self) -> int:
        return self._epochs.latest

    def accept(self, header: BatchHeader, content: memoryview) -> None:
        check_crc(content, header)
        if header.base_offset < self.next_offset:
            raise CorruptBatch(f"offset {header.base_offset} goes back below {self.next_offset}")
        # After a truncation old bytes may lie behind new ones, whole and with a good CRC; but
        # what replaces a truncated tail is always of a later epoch.
        if 0 <= header.leader_epoch < self._epochs.latest:
            raise CorruptBatch(
                f"leader epoch {header.leader_epoch} follows epoch {self._epochs.latest}"
            )
        if header.leader_epoch > self._epochs.latest:
            self._begin_epoch(header)
        self.next_offset = header.next_offset

    def _begin_epoch(self, header: BatchHeader) -> None:
        """Compaction may have taken an epoch's first records, or all of them.

        Such an epoch still begins where it began, which the checkpoint knows. A later start would
        tell followers that the epoch before went on, and they would keep what nobody agreed on.
        """
        for entry in self._settled:
            is_among = self.next_offset <= entry.start_offset <= header.base_offset
            if is_among and self._epochs.latest < entry.epoch <= header.leader_epoch:
                self._epochs.assign(entry.epoch, entry.start_offset)
        self._epochs.assign(header.leader_epoch, header.base_offset)


def _cut(log: LocalLog, index: int, report: LoadReport) -> None:
    """Drop what comes after the good part: first the later segments, then the tail."""
    later = [log.segments[each] for each in range(index + 1, len(log.segments))]
    report.dropped_segments += len(later)
    report.cut_bytes += sum(segment.size for segment in later)
    log.drop_tail(later)
    segment = log.segments.active
    file = segment.log.file()
    file.truncate(segment.size)
    file.sync()


def _refuse_old_format(segment: LogSegment, refusal: BatchError) -> None:
    """Messages of magic 0 and 1 are not damage: cutting them would destroy somebody's data."""
    if not isinstance(refusal, UnsupportedMagic):
        return
    file = segment.log.file()
    start = file.read(MAGIC_POSITION, segment.size)
    length = int.from_bytes(start[8:LENGTH_END], "big", signed=True)
    message = file.read(max(length, 0), segment.size + LENGTH_END)
    crc, content = message[:4], message[4:]
    if length > 4 and len(message) == length and zlib.crc32(content) == int.from_bytes(crc, "big"):
        raise UnsupportedMagic(f"{segment.log.path}: {refusal}")
