"""Append times estimated from samples, against the real ones."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.coordinator.group.offset_history import (
    AGE_FRACTION,
    EXACT_INTERVALS,
    MAX_SAMPLES,
    OffsetHistory,
)

INTERVAL_MS = 5_000

# What happens between two samples: nothing for some intervals, or appends at times within one.
QUIET = st.integers(1, 40)
APPENDS = st.lists(
    st.tuples(st.integers(1, INTERVAL_MS), st.integers(1, 1_000)), min_size=1, max_size=4
)


@settings(max_examples=200, deadline=None)
@given(st.lists(QUIET | APPENDS, min_size=1, max_size=60), st.integers(1, 20))
def test_error_is_at_most_one_interval_or_a_fraction_of_the_age(
    happenings: list[int | list[tuple[int, int]]], repeats: int
) -> None:
    history = OffsetHistory(INTERVAL_MS)
    now_ms = end_offset = 0
    history.add(now_ms, end_offset)
    # Base offset and append time of each append.
    appended: list[tuple[int, int]] = []
    for happening in happenings * repeats:
        if isinstance(happening, int):
            for _ in range(happening):
                now_ms += INTERVAL_MS
                history.add(now_ms, end_offset)
            continue
        for offset_ms, count in sorted(happening):
            appended.append((end_offset, now_ms + offset_ms))
            end_offset += count
        now_ms += INTERVAL_MS
        history.add(now_ms, end_offset)
    assert len(history) <= MAX_SAMPLES
    for offset, real_ms in appended:
        found = history.append_time(offset)
        assert found is not None
        if found.is_lower_bound:
            # The real age is larger, and the samples reach back for very long.
            assert real_ms <= found.time_ms
            assert now_ms - found.time_ms > 100 * EXACT_INTERVALS * INTERVAL_MS
            continue
        age_ms = now_ms - real_ms
        is_recent = age_ms < (EXACT_INTERVALS - 1) * INTERVAL_MS
        limit_ms = INTERVAL_MS if is_recent else INTERVAL_MS + age_ms // AGE_FRACTION
        assert abs(found.time_ms - real_ms) <= limit_ms, (offset, real_ms, found, age_ms)
    assert history.append_time(end_offset) is None
    assert history.end_offset == end_offset


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=2_000))
def test_estimates_never_decrease_with_the_offset(counts: list[int]) -> None:
    history = OffsetHistory(INTERVAL_MS)
    end_offset = 0
    for number, count in enumerate(counts):
        end_offset += count
        history.add(number * INTERVAL_MS, end_offset)
    found = [history.append_time(offset) for offset in range(end_offset)]
    times_ms = [each.time_ms for each in found if each is not None]
    assert times_ms == sorted(times_ms)
    assert len(times_ms) == end_offset
