"""How far may be committed, whichever way workers finish."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.client.parallel.commit_progress import CommitProgress
from headwater.common.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def begun(*offsets: int) -> tuple[CommitProgress, int]:
    progress = CommitProgress()
    tokens = [progress.begin(T0, offset) for offset in offsets]
    return progress, tokens[0]


def test_a_commit_stays_behind_the_oldest_record_that_is_not_done_with() -> None:
    progress, token = begun(3, 4, 7)
    progress.finish(T0, 4, token)
    progress.finish(T0, 7, token)
    assert progress.to_commit() == {}
    progress.finish(T0, 3, token)
    assert progress.to_commit() == {T0: 8}
    assert progress.unfinished_count == 0


def test_what_was_committed_is_no_news() -> None:
    progress, token = begun(3, 4)
    progress.finish(T0, 3, token)
    progress.committed({T0: 4})
    assert progress.to_commit() == {}
    progress.finish(T0, 4, token)
    assert progress.to_commit() == {T0: 5}


def test_what_finishes_after_its_partition_went_counts_for_nothing() -> None:
    progress, token = begun(3, 4)
    progress.forget(T0)
    assert progress.unfinished_count == 0
    newer = progress.begin(T0, 3)
    progress.finish(T0, 3, token)
    assert not progress.is_wanted(T0, token)
    assert progress.to_commit() == {}
    assert progress.unfinished_count == 1
    progress.finish(T0, 3, newer)
    assert progress.to_commit() == {T0: 4}


def test_partitions_are_counted_each_for_itself() -> None:
    progress, token = begun(3)
    progress.begin(T1, 9)
    progress.finish(T0, 3, token)
    assert (progress.unfinished(T0), progress.unfinished(T1)) == (0, 1)
    progress.forget(T1)
    assert progress.unfinished_count == 0


@given(st.sets(st.integers(0, 60), min_size=1), st.data())
def test_whatever_the_order_everything_below_the_commit_is_done_with(
    offsets: set[int], data: st.DataObject
) -> None:
    progress = CommitProgress()
    tokens = {offset: progress.begin(T0, offset) for offset in sorted(offsets)}
    done: set[int] = set()
    for offset in data.draw(st.permutations(sorted(offsets))):
        progress.finish(T0, offset, tokens[offset])
        done.add(offset)
        left = offsets - done
        bound = progress.to_commit().get(T0, 0)
        assert all(each in done for each in offsets if each < bound)
        assert not left or bound <= min(left)
    assert progress.to_commit() == {T0: max(offsets) + 1}


def test_offsets_that_go_back_begin_a_partition_anew() -> None:
    """Its log was cut, or its topic was deleted and made again."""
    progress, old = begun(3, 4)
    new = progress.begin(T0, 0)
    assert new != old
    assert progress.unfinished_count == 1
    progress.finish(T0, 3, old)
    progress.finish(T0, 4, old)
    assert progress.to_commit() == {}
    progress.finish(T0, 0, new)
    assert progress.to_commit() == {T0: 1}


def test_offsets_that_go_back_after_all_was_done_begin_anew_as_well() -> None:
    progress, old = begun(3)
    progress.finish(T0, 3, old)
    assert progress.begin(T0, 3) != old
    assert progress.to_commit() == {}
