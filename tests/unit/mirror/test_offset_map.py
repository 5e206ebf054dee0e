"""Mapping of source offsets to offsets of the copy."""

from headwater.mirror.offset_map import (
    RECENT_RUNS,
    RUNS_AT_ONCE,
    MirrorOffsetMap,
    OffsetPair,
    Run,
    keys_of,
    latest,
    runs_after,
)


def run(number: int, source: int, target: int, count: int) -> Run:
    return Run(number=number, source=source, target=target, count=count)


def offset_map(*runs: Run) -> MirrorOffsetMap:
    found = MirrorOffsetMap()
    for each in runs:
        for key in keys_of(each.number):
            found.put(key, each)
    return found


def test_consecutive_offsets_in_both_logs_are_one_run() -> None:
    assert runs_after(None, [OffsetPair(0, 10, 5), OffsetPair(5, 15, 2)]) == [run(0, 0, 10, 7)]


def test_gap_in_either_log_starts_a_run() -> None:
    places = [OffsetPair(0, 0, 5), OffsetPair(6, 5, 1), OffsetPair(7, 8, 1)]
    assert runs_after(None, places) == [run(0, 0, 0, 5), run(1, 6, 5, 1), run(2, 7, 8, 1)]


def test_last_run_grows_and_keeps_its_number() -> None:
    assert runs_after(run(3, 0, 0, 5), [OffsetPair(5, 5, 2)]) == [run(3, 0, 0, 7)]


def test_unchanged_run_is_not_written_again() -> None:
    assert runs_after(run(3, 0, 0, 5), [OffsetPair(5, 6, 2)]) == [run(4, 5, 6, 2)]
    assert runs_after(run(3, 0, 0, 5), []) == []


def test_very_many_runs_are_thinned_except_the_last() -> None:
    places = [OffsetPair(2 * number, number, 1) for number in range(1_000)]
    found = runs_after(None, places)
    assert len(found) == RUNS_AT_ONCE
    assert found[0] == run(0, 0, 0, 1)
    assert found[-1] == run(RUNS_AT_ONCE - 1, 1998, 999, 1)


def test_offset_is_translated_within_its_run_or_to_the_end_of_the_previous_one() -> None:
    known = offset_map(run(0, 10, 0, 5), run(1, 20, 6, 5))
    assert [known.translated(each) for each in (9, 10, 12, 15, 19, 20, 24, 25, 99)] == [
        None,
        0,
        2,
        5,
        5,
        6,
        10,
        11,
        11,
    ]


def test_translation_ignores_run_numbers() -> None:
    """If numbering restarted, a run with a small number comes after runs with larger ones."""
    known = offset_map(
        run(1, 100, 101, 100),
        run(2, 200, 202, 100),
        run(3, 300, 303, 100),
        run(0, 400, 405, 100),
    )
    found = [known.translated(each) for each in (150, 250, 350, 450, 500, 900)]
    assert found == [151, 252, 353, 455, 505, 505]
    assert known.last == run(0, 400, 405, 100)


def test_later_copy_of_a_duplicated_record_counts() -> None:
    known = offset_map(run(7, 100, 100, 50), run(2, 100, 200, 60))
    assert known.translated(120) == 220
    assert known.last == run(2, 100, 200, 60)


def test_copying_continues_after_the_last_written_run() -> None:
    """The first attempt had come further, and the second one died sooner.

    Records in between are copied after the end of the second one, to which its readers are sent.
    """
    known = offset_map(run(4, 0, 0, 200), run(5, 100, 200, 50))
    assert known.last == run(5, 100, 200, 50)
    assert known.translated(180) == 250


def test_latest_run_has_the_largest_target_offset() -> None:
    assert latest([]) is None
    assert latest([None, run(9, 0, 5, 5), run(0, 5, 11, 1), None]) == run(0, 5, 11, 1)
    assert latest([run(0, 5, 11, 1), run(0, 5, 11, 4)]) == run(0, 5, 11, 4)


def test_reused_keys_still_cover_old_offsets() -> None:
    count = 30_000
    known = offset_map(*(run(number, number * 10, number * 11, 10) for number in range(count)))
    assert known.last == run(count - 1, (count - 1) * 10, (count - 1) * 11, 10)
    for number in range(count - RECENT_RUNS, count):
        assert known.translated(number * 10 + 3) == number * 11 + 3
    for lag in (1_000, 5_000, 9_000):
        number = count - lag
        place = known.translated(number * 10)
        # Never too far, and at most about twice as far back.
        assert place is not None
        assert (count - 3 * lag) * 11 <= place <= number * 11
    assert len(known._by_key) < RECENT_RUNS + 20
