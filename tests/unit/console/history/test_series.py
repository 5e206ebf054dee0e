"""The history of the console's charts: order, gaps and bounds."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.console.history.series import History, Measure, SeriesKey

LAG = Measure.GROUP_LAG


def key(name: str) -> SeriesKey:
    return SeriesKey(LAG, name)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), max_size=30))
def test_history_has_the_last_samples_in_order_with_gaps(
    samples: list[dict[str, int]],
) -> None:
    history = History(points_max=7)
    for at_ms, values in enumerate(samples):
        history.add(at_ms, {key(name): value for name, value in values.items()})
    kept = samples[-7:]
    assert history.times == tuple(range(len(samples)))[-7:]
    for name in "abc":
        assert history.values(LAG, name) == tuple(each.get(name) for each in kept)
        assert history.last(LAG, name) == (kept[-1].get(name) if kept else None)
    known = {name for values in kept for name in values}
    assert set(history.names(LAG)) >= known


def test_series_of_deleted_groups_make_room_for_others() -> None:
    history = History(points_max=3, series_max=2)
    history.add(0, {key("a"): 1, key("b"): 1, key("c"): 1})
    assert (history.names(LAG), history.dropped) == (("a", "b"), 1)
    for at_ms in range(1, 5):
        history.add(at_ms, {key("a"): 1, key("c"): 1})
    assert (history.names(LAG), history.dropped) == (("a", "c"), 0)


def test_largest_series_are_those_with_the_highest_average() -> None:
    history = History()
    history.add(
        0, {key("late"): 0, key("flat"): 4, key("gap"): 6, SeriesKey(Measure.TOTAL, "x"): 99}
    )
    history.add(1, {key("late"): 20, key("flat"): 4})
    assert history.largest(LAG, 2) == ("late", "gap")
