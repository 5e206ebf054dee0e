"""One cleaning: map the dirty part, then rewrite the log up to where the map ends.

Nothing of the log is touched. What comes out lies beside it in `.cleaned` files, durable, names
included; `swap.swap_in` puts them in place. Whoever fails here leaves no such file behind.
"""

from pathlib import PurePath

from headwater.storage.cleaner.cleaning_job import (
    CleaningJob,
    CleaningResult,
    CleaningStats,
)
from headwater.storage.cleaner.offset_map import map_dirty_part
from headwater.storage.cleaner.segment_groups import Group, group_segments
from headwater.storage.cleaner.segment_reader import Pace, unhurried
from headwater.storage.cleaner.segment_rewriter import SegmentRewriter
from headwater.storage.io.disk import Disk
from headwater.storage.log.segment_files import CLEANED, parse_name


def clean(disk: Disk, job: CleaningJob, pace: Pace = unhurried) -> CleaningResult:
    """Clean a log as the job says.

    Raises `CorruptBatch`, with the place, when a source segment is damaged, and `StorageError`
    when the disk fails; either way the log and its folder are as before.
    """
    assert job.first_dirty_offset < job.end_offset, "there is nothing to clean"
    remove_outputs(disk, job.folder)
    stats = CleaningStats()
    offset_map = map_dirty_part(disk, job, stats, pace)
    first_dirty_offset = offset_map.latest_offset + 1
    groups = _groups_up_to(job, first_dirty_offset)
    rewriting = SegmentRewriter(disk, job, offset_map, stats, pace)
    is_done = False
    try:
        cleaned = tuple(rewriting.rewrite(group) for group in groups)
        # A rename may survive a power cut only together with the name it renames.
        disk.sync_directory(job.folder)
        is_done = True
    finally:
        if not is_done:
            remove_outputs(disk, job.folder)
    return CleaningResult(
        groups=cleaned,
        first_dirty_offset=first_dirty_offset,
        generation=job.generation,
        stats=stats,
    )


def _groups_up_to(job: CleaningJob, first_dirty_offset: int) -> list[Group]:
    """The segments that the map reaches, the last one perhaps in part."""
    reached = [source for source in job.sources if source.base_offset < first_dirty_offset]
    beyond = [source.base_offset for source in job.sources[len(reached) :]]
    return group_segments(
        reached,
        segment_bytes=job.segment_bytes,
        segment_index_bytes=job.segment_index_bytes,
        end_offset=beyond[0] if beyond else job.end_offset,
    )


def remove_outputs(disk: Disk, folder: PurePath) -> None:
    """Remove what a cleaning wrote, whether it failed, was killed or is not wanted any more."""
    for name in disk.names(folder):
        file = parse_name(name)
        if file is not None and file.suffix == CLEANED:
            disk.remove(folder / name)
