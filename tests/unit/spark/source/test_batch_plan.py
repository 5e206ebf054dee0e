"""Which offsets a batch reads, and how they are dealt out."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.ids import TopicPartition
from headwater.spark.source.batch_plan import (
    OffsetRange,
    batch_plan,
    is_enough,
    limited,
    limited_bytes,
    split_ranges,
)

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))

spans = st.lists(st.integers(0, 10_000), min_size=1, max_size=6)


def test_a_limit_is_shared_in_proportion_to_what_is_there() -> None:
    assert limited(100, {P0: 0, P1: 50}, {P0: 300, P1: 150}) == {P0: 75, P1: 75}


def test_a_small_partition_beside_a_large_one_is_not_starved() -> None:
    assert limited(10, {P0: 0, P1: 0}, {P0: 100_000, P1: 1})[P1] == 1


def test_a_limit_above_what_is_there_takes_everything() -> None:
    assert limited(500, {P0: 0, P1: 0}, {P0: 200, P1: 300}) == {P0: 200, P1: 300}


def test_a_partition_that_went_backwards_is_left_where_it_is() -> None:
    assert limited(10, {P0: 100, P1: 0}, {P0: 40, P1: 1000}) == {P0: 40, P1: 10}


@settings(deadline=None)
@given(spans, st.integers(1, 20_000))
def test_a_limit_is_kept_but_for_one_offset_of_each_partition(sizes: list[int], limit: int) -> None:
    start = {TopicPartition("t", number): 7 for number in range(len(sizes))}
    latest = {TopicPartition("t", number): 7 + size for number, size in enumerate(sizes)}
    ends = limited(limit, start, latest)
    assert all(start[each] <= ends[each] <= latest[each] for each in latest)
    taken = sum(ends[each] - start[each] for each in latest)
    assert taken <= limit + len(sizes)
    assert taken > 0 or sum(sizes) == 0


def test_a_limit_of_bytes_goes_by_what_records_were_like() -> None:
    ends = limited_bytes(100_000, {P0: 0, P1: 0}, {P0: 1000, P1: 1000}, {P0: 100.0, P1: 900.0})
    assert ends == {P0: 100, P1: 100}


def test_a_record_larger_than_the_limit_of_bytes_is_read_all_the_same() -> None:
    assert limited_bytes(10, {P0: 5}, {P0: 9}, {P0: 1e6}) == {P0: 6}


def test_a_batch_waits_for_enough_offsets_or_long_enough() -> None:
    start, latest = {P0: 10}, {P0: 15}
    assert not is_enough(6, start, latest, waited_ms=99, max_delay_ms=100)
    assert is_enough(5, start, latest, waited_ms=0, max_delay_ms=100)
    assert is_enough(6, start, latest, waited_ms=100, max_delay_ms=100)


def test_a_plan_goes_from_start_to_end_of_each_partition_that_has_something() -> None:
    plan = batch_plan({P0: 3, P1: 9}, {P0: 5, P1: 9}, {})
    assert plan.ranges == (OffsetRange(P0, 3, 5),)
    assert plan.losses == ()


def test_a_new_partition_begins_at_its_earliest_offset() -> None:
    plan = batch_plan({P0: 0}, {P0: 0, P1: 4}, {P1: 0})
    assert plan.ranges == (OffsetRange(P1, 0, 4),)
    assert plan.losses == ()


def test_every_kind_of_data_loss_is_reported() -> None:
    plan = batch_plan({P0: 8, P1: 1}, {P0: 3, P2: 9, TopicPartition("u", 0): 1}, {P2: 5})
    assert plan.ranges == (OffsetRange(P2, 5, 9),)
    assert plan.losses == (
        "t-1 were deleted before all their records were read",
        "t-0 ended at 8 and now ends at 3",
        "t-2 is new and starts at 5 instead of 0",
        "u-0 was created and deleted before it was read",
    )


def test_large_ranges_are_cut_and_small_ones_stay_whole() -> None:
    parts = split_ranges([OffsetRange(P0, 0, 10), OffsetRange(P1, 0, 1000)], min_partitions=5)
    assert parts == [
        OffsetRange(P0, 0, 10),
        OffsetRange(P1, 0, 250),
        OffsetRange(P1, 250, 500),
        OffsetRange(P1, 500, 750),
        OffsetRange(P1, 750, 1000),
    ]


def test_no_task_gets_more_than_the_records_it_may_have() -> None:
    parts = split_ranges([OffsetRange(P0, 0, 10)], max_records_per_partition=4)
    assert [part.size for part in parts] == [3, 3, 4]


@settings(deadline=None)
@given(spans, st.none() | st.integers(1, 40), st.none() | st.integers(1, 5000))
def test_cutting_loses_nothing_and_keeps_the_order(
    sizes: list[int], min_partitions: int | None, at_most: int | None
) -> None:
    whole = [
        OffsetRange(TopicPartition("t", number), 5, 5 + size) for number, size in enumerate(sizes)
    ]
    parts = split_ranges(whole, min_partitions, at_most)
    assert parts == sorted(parts)
    for each in whole:
        of_each = [part for part in parts if part.partition == each.partition]
        assert sum(part.size for part in of_each) == each.size
        ends = [each.start, *(part.end for part in of_each)]
        assert [part.start for part in of_each] == ends[:-1]
    if at_most is not None:
        assert all(part.size <= at_most for part in parts)
