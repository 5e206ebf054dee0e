"""Choose which segments to merge into one (CP-7). Pure.

Cleaned segments are smaller, so without merging a log would end up as many tiny files. Sizes are
those before cleaning: a merged segment can only turn out smaller than planned.
"""

from collections.abc import Sequence

from headwater.common.settings.topic_settings import INT_MAX
from headwater.storage.cleaner.cleaning_job import SourceSegment

Group = tuple[SourceSegment, ...]


def group_segments(
    segments: Sequence[SourceSegment],
    *,
    segment_bytes: int,
    segment_index_bytes: int,
    end_offset: int,
) -> list[Group]:
    """Split adjacent segments into groups that each fit into one segment.

    `end_offset` bounds the offsets of the last segment, as the next base offset bounds the others.
    """
    groups: list[Group] = []
    run: list[SourceSegment] = []
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        next_base = end_offset if is_last else segments[index + 1].base_offset
        if run and not _fits(run, segment, next_base, segment_bytes, segment_index_bytes):
            groups.append(tuple(run))
            run = []
        run.append(segment)
    if run:
        groups.append(tuple(run))
    return groups


def _fits(
    run: list[SourceSegment],
    segment: SourceSegment,
    next_base: int,
    segment_bytes: int,
    segment_index_bytes: int,
) -> bool:
    members = [*run, segment]
    return (
        sum(member.size_bytes for member in members) <= segment_bytes
        and sum(member.offset_index_bytes for member in members) <= segment_index_bytes
        and sum(member.time_index_bytes for member in members) <= segment_index_bytes
        # Indexes store offsets as int32 relative to the base offset. An empty segment stores none,
        # and leaving it out would leave an empty file behind every 2^31 offsets.
        and (segment.size_bytes == 0 or next_base - 1 - run[0].base_offset <= INT_MAX)
    )
