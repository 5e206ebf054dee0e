"""Opening a log: what a clean stop left is trusted, what a crash left is checked.

After a clean stop nothing is scanned. After a crash every segment from the one that holds the
recovery point on is read, checked batch by batch and indexed anew; the log ends where the first
batch fails (RC-1). Everything derived from the content, that is indexes, leader epochs and
producers' state, is believed only as far as it speaks of offsets below the recovery point.
"""

import zlib
from dataclasses import dataclass, field
from pathlib import PurePath

from headwater.model.failures import (
    BatchError,
    CorruptBatch,
    CorruptFile,
    UnsupportedMagic,
)
from headwater.model.ids import TopicPartition
from headwater.model.ports import Dice
from headwater.model.topic_settings import TopicSettings
from headwater.records.checksum import check_crc
from headwater.records.header import LENGTH_END, MAGIC_POSITION, BatchHeader
from headwater.storage import (
    leader_epochs,
    producer_replay,
    producer_snapshot,
    segment_files,
    transaction_index,
)
from headwater.storage.compaction.swap import finish_interrupted
from headwater.storage.disk import TEMPORARY, Disk
from headwater.storage.leader_epochs import EpochEntry, LeaderEpochs
from headwater.storage.open_files import OpenFiles
from headwater.storage.partition_log import LogParts
from headwater.storage.producer_state import ProducerStates
from headwater.storage.removals import PendingRemovals
from headwater.storage.segment import Segment
from headwater.storage.segment_home import SegmentHome
from headwater.storage.segmented_log import SegmentedLog
from headwater.storage.segments import Segments


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where a log lives and what it shares with the others of its directory."""

    disk: Disk
    files: OpenFiles
    removals: PendingRemovals
    folder: PurePath
    partition: TopicPartition
    dice: Dice


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
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


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The parts of a log, ready to serve, and what it took."""

    parts: LogParts
    report: LoadReport


def new_log(place: LogPlace, settings: TopicSettings, *, now_ms: int) -> LogParts:
    """Start a log in a folder that was just made. Its first flush makes all of it durable."""
    home = _home(place, settings)
    body = SegmentedLog(
        home,
        Segments((Segment.create(home, 0, created_ms=now_ms, is_first=True),)),
        end_offset=0,
        removals=place.removals,
        is_folder_durable=False,
    )
    return LogParts(
        partition=place.partition,
        settings=settings,
        body=body,
        producers=ProducerStates(),
        epochs=LeaderEpochs(),
        log_start_offset=0,
        recovery_point=0,
    )


def load_log(
    place: LogPlace, settings: TopicSettings, remembered: Remembered, *, now_ms: int
) -> LoadedLog:
    """Open the log in a folder, or start an empty one where there is none."""
    report = LoadReport()
    place.disk.make_directory(place.folder)
    finish_interrupted(place.disk, place.folder)
    names = _without_unfinished(place)
    log = SegmentedLog(
        _home(place, settings),
        Segments(()),
        end_offset=remembered.log_start_offset,
        removals=place.removals,
        # A recovery point above 0 tells of a flush.
        is_folder_durable=remembered.recovery_point > 0,
    )
    _find_segments(log, names, report)
    if not len(log.segments):
        return _empty_log(place, settings, log, remembered, now_ms, report)
    epochs = _load_epochs(place, log, report)
    first_doubtful = _first_torn_transaction_index(log, names, report)
    if not remembered.was_clean:
        first_doubtful = min(first_doubtful, log.segments.index_of(remembered.recovery_point))
        if len(log.segments) > 1 or log.segments.active.size:
            # After the crash of a process, renames and removals may be in memory only; what they
            # took away must not come back under what is appended next. Before a log is left with
            # nothing but an empty segment, all of that is synced.
            place.disk.sync_directory(place.folder)
        _recover(log, epochs, first_doubtful, remembered, report)
    log.end_offset = log.segments.active.next_offset()
    log_start_offset = max(remembered.log_start_offset, log.segments.first.base_offset)
    if log.end_offset < log_start_offset:
        report.reasons.append(f"the log ends at {log.end_offset}, below its start")
        return _empty_log(place, settings, log, remembered, now_ms, report)
    epochs.truncate_from_start(log_start_offset)
    epochs.truncate_from_end(log.end_offset)
    producers = ProducerStates()
    doubtful_from = log.end_offset
    if first_doubtful < len(log.segments):
        doubtful_from = log.segments[first_doubtful].base_offset
    producer_replay.reload(
        producers,
        log,
        log_start_offset=log_start_offset,
        trusted_up_to=min(doubtful_from, log.end_offset),
        index_from=doubtful_from,
    )
    parts = LogParts(
        partition=place.partition,
        settings=settings,
        body=log,
        producers=producers,
        epochs=epochs,
        log_start_offset=log_start_offset,
        recovery_point=min(remembered.recovery_point, log.end_offset),
        first_dirty_offset=_bounded(remembered.first_dirty_offset, log.end_offset),
        is_at_rest=remembered.was_clean and first_doubtful == len(log.segments),
    )
    return LoadedLog(parts, report)


def _bounded(offset: int | None, end_offset: int) -> int | None:
    return None if offset is None else min(offset, end_offset)


def _without_unfinished(place: LogPlace) -> list[str]:
    """What is in the folder, less the small files that were being replaced when a crash came."""
    names = place.disk.names(place.folder)
    for name in names:
        if name.endswith(TEMPORARY):
            place.disk.remove(place.folder / name)
    return [name for name in names if not name.endswith(TEMPORARY)]


def _home(place: LogPlace, settings: TopicSettings) -> SegmentHome:
    home = SegmentHome(disk=place.disk, files=place.files, folder=place.folder, dice=place.dice)
    home.configure(settings)
    return home


def _empty_log(
    place: LogPlace,
    settings: TopicSettings,
    log: SegmentedLog,
    remembered: Remembered,
    now_ms: int,
    report: LoadReport,
) -> LoadedLog:
    start = remembered.log_start_offset
    # Or a snapshot of records that are gone would be believed once the log has grown past it.
    producer_snapshot.remove_all(place.disk, place.folder)
    log.start_over(start, now_ms=now_ms)
    if not remembered.was_clean:
        # A crash may have come amid the removal of the old segments: not one may come back.
        place.disk.sync_directory(place.folder)
    epochs = LeaderEpochs()
    epochs.unsaved = True
    parts = LogParts(
        partition=place.partition,
        settings=settings,
        body=log,
        producers=ProducerStates(),
        epochs=epochs,
        log_start_offset=start,
        recovery_point=start if log.is_folder_durable else 0,
    )
    return LoadedLog(parts, report)


def _find_segments(log: SegmentedLog, names: list[str], report: LoadReport) -> None:
    """Every `.log` is a segment; an index that is missing is built."""
    disk, folder = log.home.disk, log.home.folder
    present = dict.fromkeys(names)
    for name in names:
        base_offset = segment_files.offset_in(name, segment_files.LOG)
        if base_offset is None:
            continue
        path = folder / name
        status = disk.status(path)
        assert status is not None, "the folder is ours alone"
        segment = Segment(log.home, base_offset, size=status.size, created_ms=status.modified_ms)
        log.segments.add(segment)
        if not _has_indexes(segment, present):
            # One that was never written to need not have any yet.
            report.rebuilt_indexes += 1 if segment.size else 0
            segment.rebuild_indexes()


def _has_indexes(segment: Segment, present: dict[str, None]) -> bool:
    return all(
        segment_files.file_name(segment.base_offset, kind) in present
        for kind in (segment_files.INDEX, segment_files.TIME_INDEX)
    )


def _first_torn_transaction_index(log: SegmentedLog, names: list[str], report: LoadReport) -> int:
    """The place of the first segment whose `.txnindex` must be built anew, or past the last."""
    for name in names:
        base_offset = segment_files.offset_in(name, segment_files.TRANSACTION_INDEX)
        if base_offset is None:
            continue
        status = log.home.disk.status(log.home.folder / name)
        if status is not None and status.size % transaction_index.ENTRY_BYTES:
            report.rebuilt_indexes += 1
            return log.segments.index_of(base_offset)
    return len(log.segments)


def _load_epochs(place: LogPlace, log: SegmentedLog, report: LoadReport) -> LeaderEpochs:
    try:
        return leader_epochs.load(place.disk, place.folder)
    except CorruptFile as failure:
        report.reasons.append(str(failure))
    epochs = LeaderEpochs()
    for segment in log.segments:
        for placed in segment.headers_since(segment.base_offset):
            if placed.header.leader_epoch >= 0:
                epochs.assign(placed.header.leader_epoch, placed.header.base_offset)
    return epochs


def _recover(
    log: SegmentedLog,
    epochs: LeaderEpochs,
    first: int,
    remembered: Remembered,
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
    acceptance = _Acceptance(epochs, settled, log.segments[first].base_offset)
    for index in range(first, len(log.segments)):
        segment = log.segments[index]
        size = segment.size
        hole = segment.base_offset - acceptance.next_offset
        is_compacted = segment.base_offset <= compacted_up_to or remembered.is_foreign
        if hole < 0 or (hole and not is_compacted):
            report.reasons.append(
                f"{segment.log.path.name} does not follow offset {acceptance.next_offset}"
            )
            _cut(log, index - 1, report)
            return
        refusal = segment.rebuild(acceptance.accept)
        report.recovered_segments += 1
        if refusal is not None:
            _refuse_old_format(segment, refusal)
            report.reasons.append(f"{segment.log.path.name} at {segment.size}: {refusal}")
            report.cut_bytes += size - segment.size
            _cut(log, index, report)
            return


class _Acceptance:
    """The test that every batch of a doubtful segment must pass."""

    def __init__(self, epochs: LeaderEpochs, settled: list[EpochEntry], start_offset: int) -> None:
        self._epochs = epochs
        self._settled = settled
        self.next_offset = start_offset

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


def _cut(log: SegmentedLog, index: int, report: LoadReport) -> None:
    """Drop what comes after the good part: first the later segments, then the tail."""
    later = [log.segments[each] for each in range(index + 1, len(log.segments))]
    report.dropped_segments += len(later)
    report.cut_bytes += sum(segment.size for segment in later)
    log.drop_tail(later)
    segment = log.segments.active
    file = segment.log.file()
    file.truncate(segment.size)
    file.sync()


def _refuse_old_format(segment: Segment, refusal: BatchError) -> None:
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
