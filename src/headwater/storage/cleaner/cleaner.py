"""Cleaner: map the dirty part, then rewrite the log up to the end of the map.

The log itself is not touched. The result is written to `.cleaned` files, durable including their
names; `segment_swap.swap_in` puts them in place. A failed cleaning leaves no such file behind.
"""

from pathlib import PurePath

from headwater.storage.cleaner.cleaning_job import (
    CleaningJob,
    CleaningResult,
    CleaningStats,
)
from headwater.storage.cleaner.offset_map import map_dirty_part
from headwater.storage.cleaner.segment_groups import Group, group_segments
from headwater.storage.cleaner.segment_reader import Throttle, unthrottled
from headwater.storage.cleaner.segment_rewriter import SegmentRewriter
from headwater.storage.io.disk import Disk
from headwater.storage.log.segment_files import CLEANED, parse_name


def clean(disk: Disk, job: CleaningJob, throttle: Throttle = unthrottled) -> CleaningResult:
    """Clean a log according to the job.

    Raises `CorruptBatch`, with the position, if a source segment is corrupt, and `StorageError` if
    the disk fails. In both cases the log and its directory are unchanged.
    """
    assert job.first_dirty_offset < job.end_offset, "there is nothing to clean"
    remove_outputs(disk, job.folder)
    stats = CleaningStats()
    offset_map = map_dirty_part(disk, job, stats, throttle)
    first_dirty_offset = offset_map.latest_offset + 1
    groups = _groups_up_to(job, first_dirty_offset)
    rewriting = SegmentRewriter(disk, job, offset_map, stats, throttle)
    is_done = False
    try:
        cleaned = tuple(rewriting.rewrite(group) for group in groups)
        # A rename is durable only if the name that it renames is.
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
    """Return the segments that the map covers, the last one perhaps partly."""
    reached = [source for source in job.sources if source.base_offset < first_dirty_offset]
    beyond = [source.base_offset for source in job.sources[len(reached) :]]
    return group_segments(
        reached,
        segment_bytes=job.segment_bytes,
        segment_index_bytes=job.segment_index_bytes,
        end_offset=beyond[0] if beyond else job.end_offset,
    )


def remove_outputs(disk: Disk, folder: PurePath) -> None:
    """Remove the files of a cleaning that failed, was killed or is no longer needed."""
    for name in disk.names(folder):
        file = parse_name(name)
        if file is not None and file.suffix == CLEANED:
            disk.remove(folder / name)
