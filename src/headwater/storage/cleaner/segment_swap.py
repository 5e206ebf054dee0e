"""Replace segments with cleaned ones atomically (CP-7, RC-2).

For each new segment, oldest first, with the directory synced after every step:

    1. all its files        .cleaned -> .swap
    2. all old files        in place -> .deleted
    3. its log              .swap    -> in place
    4. its indexes          .swap    -> in place

The files found at start show at which step a crash interrupted the swap:

    .cleaned beside .swap   step 1: nothing old was touched. Drop both, the .swap files first:
                            alone, they would look like step 2 or 4.
    .log.swap               step 2, or 3 undone: every file in place within the offsets of the
                            new log is old. Remove those, then do steps 3 and 4.
    other .swap, no log     step 4: the log in place is the new one. Rename the rest.

This is why the log precedes its indexes in step 3, and why the last batch of a new log is always
kept: its offsets reach into the last segment that it replaces. Kafka's own recovery interprets
these files in the same way.

Invariant: segments are swapped in order, each durable before the next. A tombstone may be missing
from a later segment only because the values it deleted are gone from an earlier one.
"""

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from headwater.common.exceptions import BatchError, StorageError
from headwater.storage.cleaner.cleaning_job import CleanedGroup, CleaningResult, ReplacedSegment
from headwater.storage.cleaner.segment_reader import read_chunks
from headwater.storage.io.disk import Disk
from headwater.storage.log.segment_files import (
    CLEANED,
    DELETED,
    INDEX_KINDS,
    LOG,
    SEGMENT_KINDS,
    SUFFIXES,
    SWAP,
    SegmentFile,
    file_name,
    parse_name,
)

_SCAN_BYTES = 1 << 20


def still_valid(
    result: CleaningResult, inactive: Sequence[ReplacedSegment], generation: int
) -> bool:
    """Return whether the log's inactive segments are still the ones that were cleaned.

    All or nothing: if retention had removed some of the sources, values could come back whose
    tombstones are gone. A truncation changes the generation, because it may leave the sizes as they
    were.
    """
    if result.generation != generation:
        return False
    sources = [source for group in result.groups for source in group.replaced]
    return sources == list(inactive[: len(sources)])


def apply(disk: Disk, folder: PurePath, result: CleaningResult) -> list[PurePath]:
    """Swap in all new segments; return the files to delete after file.delete.delay.ms.

    The caller has checked `still_valid` just before. If the disk fails in the middle, the directory
    is as after a crash: `finish_interrupted` repairs it.
    """
    deleted: list[PurePath] = []
    for group in result.groups:
        deleted += swap_in(disk, folder, group)
    return deleted


def finish_interrupted(disk: Disk, folder: PurePath) -> None:
    """Complete interrupted swaps before a log's segments are opened. Idempotent."""
    names = disk.names(folder)
    if any(name.endswith(SUFFIXES) for name in names):
        _drop_unfinished(disk, folder)
        _complete_swaps(disk, folder)
        _remove(disk, folder, (name for name in disk.names(folder) if name.endswith(DELETED)))
        names = disk.names(folder)
    _remove_orphans(disk, folder, names)


def swap_in(disk: Disk, folder: PurePath, group: CleanedGroup) -> list[PurePath]:
    """Swap in one new segment, in order; return the files to delete afterwards."""
    base = group.base_offset
    # The log last: Kafka treats what it finds under .swap names as complete.
    for kind in (*INDEX_KINDS, LOG):
        _rename_if_there(disk, folder, file_name(base, kind, CLEANED), file_name(base, kind, SWAP))
    disk.sync_directory(folder)
    deleted = []
    for source in group.replaced:
        for kind in SEGMENT_KINDS:
            name = file_name(source.base_offset, kind)
            if _rename_if_there(disk, folder, name, name + DELETED):
                deleted.append(folder / (name + DELETED))
    disk.sync_directory(folder)
    _put_in_place(disk, folder, base)
    return deleted


def _put_in_place(disk: Disk, folder: PurePath, base_offset: int) -> None:
    """Do steps 3 and 4, live and at start."""
    for kinds in ((LOG,), INDEX_KINDS):
        for kind in kinds:
            name = file_name(base_offset, kind)
            _rename_if_there(disk, folder, name + SWAP, name)
        disk.sync_directory(folder)


def _drop_unfinished(disk: Disk, folder: PurePath) -> None:
    """Remove all .cleaned files, and before them the .swap files that belong to them.

    Kafka splits one segment into several, renaming from the highest offset down; so a remaining
    .cleaned file invalidates every .swap file at its offset or above.
    """
    files = _segment_files(disk, folder)
    cleaned = [name for name, file in files if file.suffix == CLEANED]
    if not cleaned:
        return
    lowest = min(file.base_offset for _, file in files if file.suffix == CLEANED)
    unfinished = [
        name for name, file in files if file.suffix == SWAP and file.base_offset >= lowest
    ]
    _remove(disk, folder, unfinished)
    _remove(disk, folder, cleaned)


def _complete_swaps(disk: Disk, folder: PurePath) -> None:
    files = _segment_files(disk, folder)
    swaps = sorted({file.base_offset for _, file in files if file.suffix == SWAP})
    for base in swaps:
        if disk.status(folder / file_name(base, LOG, SWAP)) is not None:
            end = _end_of_swap(disk, folder, base)
            replaced = (
                name
                for name, file in files
                if not file.suffix and base <= file.base_offset < max(end, base + 1)
            )
            _remove(disk, folder, replaced)
        _put_in_place(disk, folder, base)


def _remove_orphans(disk: Disk, folder: PurePath, names: Sequence[str]) -> None:
    """Remove indexes without a log, left by a crash after a rename to .deleted."""
    files = [(name, file) for name, file in _parsed(names) if not file.suffix]
    logs = {file.base_offset for _, file in files if file.kind == LOG}
    orphans = (name for name, file in files if file.base_offset not in logs)
    _remove(disk, folder, orphans)


def _end_of_swap(disk: Disk, folder: PurePath, base_offset: int) -> int:
    """Return the offset after the last batch of a new log that is not yet in place."""
    path = folder / file_name(base_offset, LOG, SWAP)
    status = disk.status(path)
    assert status is not None, "the caller has seen the file"
    next_offset = base_offset
    try:
        for chunk in read_chunks(disk, path, status.size, _SCAN_BYTES):
            next_offset = chunk.headers[-1].next_offset
    except BatchError as error:
        # It was synced before it got this name, and what it replaces may already be gone.
        raise StorageError(f"a cleaned segment is corrupt: {error}") from error
    return next_offset


def _segment_files(disk: Disk, folder: PurePath) -> list[tuple[str, SegmentFile]]:
    return _parsed(disk.names(folder))


def _parsed(names: Iterable[str]) -> list[tuple[str, SegmentFile]]:
    parsed = ((name, parse_name(name)) for name in names)
    return [(name, file) for name, file in parsed if file is not None]


def _rename_if_there(disk: Disk, folder: PurePath, source: str, target: str) -> bool:
    if disk.status(folder / source) is None:
        return False
    disk.rename(folder / source, folder / target)
    return True


def _remove(disk: Disk, folder: PurePath, names: Iterable[str]) -> None:
    """Remove files durably; later steps may rely on their absence after a crash."""
    removed = False
    for name in names:
        disk.remove(folder / name)
        removed = True
    if removed:
        disk.sync_directory(folder)
