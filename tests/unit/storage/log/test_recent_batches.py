"""Remembered batch positions agree with the log, or are unknown."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.log.recent_batches import RecentBatches

# How many offsets and how many bytes each batch has.
BATCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(61, 99)), min_size=1, max_size=200)


@given(BATCHES, st.integers(0, 1_000))
def test_known_position_is_right(batches: list[tuple[int, int]], base: int) -> None:
    recent = RecentBatches()
    places: list[tuple[int, int, int]] = []
    offset, position = base, 0
    for count, size in batches:
        offset += count
        recent.add(offset - 1, position)
        places.append((offset - 1, position, position + size))
        position += size
    known = 0
    for asked in range(base, offset):
        begin, end = next((begin, end) for last, begin, end in places if last >= asked)
        found = recent.find(asked, position)
        assert found in (None, (begin, end))
        known += found is not None
    assert known >= min(30, len(batches))
    assert recent.find(offset, position) is None


def test_offset_before_the_remembered_batches_is_unknown() -> None:
    recent = RecentBatches()
    recent.add(9, 500)
    recent.add(19, 600)
    assert recent.find(9, 700) is None
    assert recent.find(10, 700) == (600, 700)


def test_nothing_is_known_after_truncation() -> None:
    recent = RecentBatches()
    recent.add(9, 0)
    assert recent.find(3, 80) == (0, 80)
    recent.clear()
    assert recent.find(3, 80) is None
