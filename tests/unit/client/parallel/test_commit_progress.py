"""Offsets that may be committed, in whatever order workers finish."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.client.parallel.commit_progress import CommitProgress
from headwater.common.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def begun(*offsets: int) -> tuple[CommitProgress, int]:
    progress = CommitProgress()
    tokens = [progress.begin(T0, offset) for offset in offsets]
    return progress, tokens[0]


def test_a_commit_stays_before_the_oldest_unfinished_record() -> None:
    progress, token = begun(3, 4, 7)
    progress.finish(T0, 4, token)
    progress.finish(T0, 7, token)
    assert progress.to_commit() == {}
    progress.finish(T0, 3, token)
    assert progress.to_commit() == {T0: 8}
    assert progress.unfinished_count == 0


def test_committed_offsets_are_not_returned_again() -> None:
    progress, token = begun(3, 4)
    progress.finish(T0, 3, token)
    progress.committed({T0: 4})
    assert progress.to_commit() == {}
    progress.finish(T0, 4, token)
    assert progress.to_commit() == {T0: 5}


def test_work_finished_after_a_revocation_is_ignored() -> None:
    progress, token = begun(3, 4)
    progress.remove(T0)
    assert progress.unfinished_count == 0
    newer = progress.begin(T0, 3)
    progress.finish(T0, 3, token)
    assert not progress.is_wanted(T0, token)
    assert progress.to_commit() == {}
    assert progress.unfinished_count == 1
    progress.finish(T0, 3, newer)
    assert progress.to_commit() == {T0: 4}


def test_partitions_are_tracked_separately() -> None:
    progress, token = begun(3)
    progress.begin(T1, 9)
    progress.finish(T0, 3, token)
    assert (progress.unfinished(T0), progress.unfinished(T1)) == (0, 1)
    progress.remove(T1)
    assert progress.unfinished_count == 0


@given(st.sets(st.integers(0, 60), min_size=1), st.data())
def test_everything_below_the_commit_is_finished_in_any_order(
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


def test_offsets_that_go_back_restart_the_partition() -> None:
    """The log was truncated, or the topic deleted and created again."""
    progress, old = begun(3, 4)
    new = progress.begin(T0, 0)
    assert new != old
    assert progress.unfinished_count == 1
    progress.finish(T0, 3, old)
    progress.finish(T0, 4, old)
    assert progress.to_commit() == {}
    progress.finish(T0, 0, new)
    assert progress.to_commit() == {T0: 1}


def test_offsets_that_go_back_after_all_work_restart_the_partition() -> None:
    progress, old = begun(3)
    progress.finish(T0, 3, old)
    assert progress.begin(T0, 3) != old
    assert progress.to_commit() == {}
