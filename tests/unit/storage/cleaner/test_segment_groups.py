"""Which segments are merged (CP-7)."""

from headwater.storage.cleaner.cleaning_job import SourceSegment
from headwater.storage.cleaner.segment_groups import group_segments


def source(
    base_offset: int,
    size_bytes: int = 100,
    *,
    offset_index_bytes: int = 8,
    time_index_bytes: int = 12,
) -> SourceSegment:
    return SourceSegment(
        base_offset=base_offset,
        size_bytes=size_bytes,
        modified_ms=0,
        offset_index_bytes=offset_index_bytes,
        time_index_bytes=time_index_bytes,
    )


def bases(
    sources: list[SourceSegment], *, segment_bytes: int = 10**6, index_bytes: int = 10**6
) -> list[list[int]]:
    groups = group_segments(
        sources,
        segment_bytes=segment_bytes,
        segment_index_bytes=index_bytes,
        end_offset=sources[-1].base_offset + 10 if sources else 0,
    )
    return [[each.base_offset for each in group] for group in groups]


FIVE = [source(base) for base in (0, 10, 20, 30, 40)]


def test_adjacent_segments_are_merged_up_to_segment_bytes() -> None:
    assert bases(FIVE, segment_bytes=200) == [[0, 10], [20, 30], [40]]
    assert bases(FIVE, segment_bytes=199) == [[0], [10], [20], [30], [40]]
    assert bases(FIVE) == [[0, 10, 20, 30, 40]]


def test_segment_larger_than_the_limit_is_not_merged() -> None:
    assert bases([source(0), source(10, 500), source(20)], segment_bytes=200) == [[0], [10], [20]]


def test_merged_indexes_must_fit_too() -> None:
    wide = [source(base, offset_index_bytes=30) for base in (0, 10, 20)]
    assert bases(wide, index_bytes=60) == [[0, 10], [20]]
    timed = [source(base, time_index_bytes=30) for base in (0, 10, 20)]
    assert bases(timed, index_bytes=60) == [[0, 10], [20]]


def test_group_spans_no_more_offsets_than_an_index_can_hold() -> None:
    far = 2**31
    assert bases([source(0), source(10), source(far - 5)]) == [[0, 10], [far - 5]]
    # The segment at 10 may extend to the next base offset, which therefore decides.
    assert bases([source(0), source(10), source(far)]) == [[0, 10], [far]]
    assert bases([source(0), source(10), source(far + 1)]) == [[0], [10], [far + 1]]
    assert bases([source(0), source(10), source(far - 10)]) == [[0, 10, far - 10]]


def test_empty_segment_is_merged_whatever_its_distance() -> None:
    far = 2**31
    assert bases([source(0), source(far, 0), source(far + 10)]) == [[0, far], [far + 10]]


def test_no_segments_give_no_groups() -> None:
    assert bases([]) == []
