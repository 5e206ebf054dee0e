"""LogLoader: open a log, with recovery after an unclean shutdown.

After a clean shutdown nothing is scanned. After a crash, every segment from the one that holds the
recovery point on is read, checked batch by batch and indexed again; the log ends at the first batch
that fails (RC-1). Indexes, leader epochs and producer state are trusted only for offsets below the
recovery point.
"""

from dataclasses import dataclass
from pathlib import PurePath

from headwater.common.exceptions import (
    CorruptFile,
)
from headwater.common.ids import TopicPartition
from headwater.common.ports import Random
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.cleaner.segment_swap import finish_interrupted
from headwater.storage.index import transaction_index
from headwater.storage.io.disk import TEMPORARY, Disk
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log import leader_epoch_checkpoint, segment_files
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache
from headwater.storage.log.local_log import LocalLog
from headwater.storage.log.recovery import CheckpointedState as CheckpointedState
from headwater.storage.log.recovery import LoadReport as LoadReport
from headwater.storage.log.recovery import recover
from headwater.storage.log.segment import LogSegment
from headwater.storage.log.segment_factory import SegmentFactory
from headwater.storage.log.segments import LogSegments
from headwater.storage.log.unified_log import LogParts
from headwater.storage.log_manager.pending_deletes import PendingDeletes
from headwater.storage.producer_state import producer_replay, producer_snapshot
from headwater.storage.producer_state.producer_state_manager import ProducerStateManager


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLocation:
    """Directory of a log and what it shares with the other logs of its log directory."""

    disk: Disk
    files: OpenFiles
    removals: PendingDeletes
    folder: PurePath
    partition: TopicPartition
    rng: Random


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """Loaded log and a report of the repairs."""

    parts: LogParts
    report: LoadReport


def new_log(place: LogLocation, settings: TopicSettings, *, now_ms: int) -> LogParts:
    """Create a log in a new directory. Its first flush makes all of it durable."""
    home = _home(place, settings)
    body = LocalLog(
        home,
        LogSegments((LogSegment.create(home, 0, created_ms=now_ms, is_first=True),)),
        end_offset=0,
        removals=place.removals,
        is_folder_durable=False,
    )
    return LogParts(
        partition=place.partition,
        settings=settings,
        local_log=body,
        producers=ProducerStateManager(),
        epochs=LeaderEpochFileCache(),
        log_start_offset=0,
        recovery_point=0,
    )


def load_log(
    place: LogLocation, settings: TopicSettings, remembered: CheckpointedState, *, now_ms: int
) -> LoadedLog:
    """Open the log in a directory, or create an empty one."""
    report = LoadReport()
    place.disk.make_directory(place.folder)
    finish_interrupted(place.disk, place.folder)
    names = _remove_temporary_files(place)
    log = LocalLog(
        _home(place, settings),
        LogSegments(()),
        end_offset=remembered.log_start_offset,
        removals=place.removals,
        # A recovery point above 0 implies an earlier flush.
        is_folder_durable=remembered.recovery_point > 0,
    )
    _find_segments(log, names)
    if not len(log.segments):
        return _empty_log(place, settings, log, remembered, now_ms, report)
    _rebuild_missing_indexes(log, names, remembered, report)
    epochs = _load_epochs(place, log, report)
    first_doubtful = _first_torn_transaction_index(log, names, report)
    if not remembered.was_clean:
        first_doubtful = min(first_doubtful, log.segments.index_of(remembered.recovery_point))
        if len(log.segments) > 1 or log.segments.active.size:
            # After a process crash, renames and removals may be in memory only, and removed files
            # must not come back under what is appended next. So they are synced before a log is
            # left with nothing but an empty segment.
            place.disk.sync_directory(place.folder)
        recover(log, epochs, first_doubtful, remembered, report)
    log.end_offset = log.segments.active.next_offset()
    log_start_offset = max(remembered.log_start_offset, log.segments.first.base_offset)
    if log.end_offset < log_start_offset:
        report.reasons.append(f"the log ends at {log.end_offset}, below its start")
        return _empty_log(place, settings, log, remembered, now_ms, report)
    epochs.truncate_from_start(log_start_offset)
    epochs.truncate_from_end(log.end_offset)
    producers = ProducerStateManager()
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
        local_log=log,
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


def _remove_temporary_files(place: LogLocation) -> list[str]:
    """Remove temporary files left by a crash; return the remaining names."""
    names = place.disk.names(place.folder)
    for name in names:
        if name.endswith(TEMPORARY):
            place.disk.remove(place.folder / name)
    return [name for name in names if not name.endswith(TEMPORARY)]


def _home(place: LogLocation, settings: TopicSettings) -> SegmentFactory:
    home = SegmentFactory(disk=place.disk, files=place.files, folder=place.folder, rng=place.rng)
    home.configure(settings)
    return home


def _empty_log(
    place: LogLocation,
    settings: TopicSettings,
    log: LocalLog,
    remembered: CheckpointedState,
    now_ms: int,
    report: LoadReport,
) -> LoadedLog:
    start = remembered.log_start_offset
    # Otherwise a snapshot of deleted records would be trusted once the log has grown past it.
    producer_snapshot.remove_all(place.disk, place.folder)
    log.start_over(start, now_ms=now_ms)
    if not remembered.was_clean:
        # The crash may have interrupted the removal of the old segments: none may come back.
        place.disk.sync_directory(place.folder)
    epochs = LeaderEpochFileCache()
    epochs.unsaved = True
    parts = LogParts(
        partition=place.partition,
        settings=settings,
        local_log=log,
        producers=ProducerStateManager(),
        epochs=epochs,
        log_start_offset=start,
        recovery_point=start if log.is_folder_durable else 0,
    )
    return LoadedLog(parts, report)


def _find_segments(log: LocalLog, names: list[str]) -> None:
    """Add a segment for each `.log` file."""
    disk, folder = log.home.disk, log.home.folder
    for name in names:
        base_offset = segment_files.offset_in(name, segment_files.LOG)
        if base_offset is None:
            continue
        status = disk.status(folder / name)
        assert status is not None, "the folder is ours alone"
        log.segments.add(
            LogSegment(log.home, base_offset, size=status.size, created_ms=status.modified_ms)
        )


def _rebuild_missing_indexes(
    log: LocalLog, names: list[str], remembered: CheckpointedState, report: LoadReport
) -> None:
    """Rebuild missing indexes, except in segments that recovery will index anyway.

    After a kill the active segment often has no indexes yet, and reading it twice would take twice
    as long.
    """
    present = dict.fromkeys(names)
    for segment in log.segments:
        if _has_indexes(segment, present):
            continue
        if remembered.was_clean or segment.base_offset < remembered.recovery_point:
            # A segment that was never written to need not have any yet.
            report.rebuilt_indexes += 1 if segment.size else 0
            segment.rebuild_indexes()
        else:
            segment.empty_indexes()


def _has_indexes(segment: LogSegment, present: dict[str, None]) -> bool:
    return all(
        segment_files.file_name(segment.base_offset, kind) in present
        for kind in (segment_files.INDEX, segment_files.TIME_INDEX)
    )


def _first_torn_transaction_index(log: LocalLog, names: list[str], report: LoadReport) -> int:
    """Return the first segment whose `.txnindex` must be rebuilt, or the count."""
    for name in names:
        base_offset = segment_files.offset_in(name, segment_files.TRANSACTION_INDEX)
        if base_offset is None:
            continue
        status = log.home.disk.status(log.home.folder / name)
        if status is not None and status.size % transaction_index.ENTRY_BYTES:
            report.rebuilt_indexes += 1
            return log.segments.index_of(base_offset)
    return len(log.segments)


def _load_epochs(place: LogLocation, log: LocalLog, report: LoadReport) -> LeaderEpochFileCache:
    try:
        return leader_epoch_checkpoint.load(place.disk, place.folder)
    except CorruptFile as failure:
        report.reasons.append(f"corrupt leader-epoch-checkpoint: {failure}")
    epochs = LeaderEpochFileCache()
    for segment in log.segments:
        for placed in segment.headers_since(segment.base_offset):
            if placed.header.leader_epoch >= 0:
                epochs.assign(placed.header.leader_epoch, placed.header.base_offset)
    return epochs
