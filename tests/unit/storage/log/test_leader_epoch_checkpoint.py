"""LeaderEpochFileCache: start and end offsets of leader epochs."""

import pytest

from headwater.common.exceptions import CorruptFile
from headwater.storage.log.leader_epoch_checkpoint import (
    EpochEnd,
    EpochEntry,
    LeaderEpochFileCache,
    decode,
)

THREE = [EpochEntry(0, 0), EpochEntry(3, 100), EpochEntry(4, 250)]


def test_new_epoch_is_assigned_before_its_first_record() -> None:
    """EP-1"""
    epochs = LeaderEpochFileCache(THREE)
    assert epochs.assign(5, 400)
    assert epochs.latest == 5
    assert epochs.end_offset_for(5, log_end_offset=400) == EpochEnd(5, 400)


def test_latest_epoch_at_a_later_offset_changes_nothing() -> None:
    """EP-2"""
    epochs = LeaderEpochFileCache(THREE)
    assert not epochs.assign(4, 250)
    assert not epochs.assign(4, 300)
    assert epochs.entries() == THREE
    assert not epochs.unsaved


def test_latest_epoch_at_an_earlier_offset_moves_there() -> None:
    """EP-2"""
    epochs = LeaderEpochFileCache(THREE)
    assert epochs.assign(4, 200)
    assert epochs.entries() == [EpochEntry(0, 0), EpochEntry(3, 100), EpochEntry(4, 200)]


@pytest.mark.parametrize(
    ("epoch", "start_offset", "kept"),
    [
        (5, 250, 2),  # the epoch before wrote nothing
        (5, 50, 1),
        (5, 0, 0),
        (3, 300, 1),
        (2, 300, 1),
        (2, 0, 0),
        (0, 300, 0),
    ],
)
def test_conflicting_entries_are_removed(epoch: int, start_offset: int, kept: int) -> None:
    """EP-2: both columns stay strictly rising."""
    epochs = LeaderEpochFileCache(THREE)
    assert epochs.assign(epoch, start_offset)
    assert epochs.entries() == [*THREE[:kept], EpochEntry(epoch, start_offset)]
    assert epochs.unsaved


def test_batch_without_leader_epoch_is_ignored() -> None:
    epochs = LeaderEpochFileCache(THREE)
    assert not epochs.assign(-1, 300)
    assert epochs.entries() == THREE


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (4, EpochEnd(4, 500)),
        (3, EpochEnd(3, 250)),
        (2, EpochEnd(0, 100)),
        (1, EpochEnd(0, 100)),
        (0, EpochEnd(0, 100)),
        (5, EpochEnd(-1, -1)),
        (-1, EpochEnd(-1, -1)),
    ],
)
def test_epoch_ends_where_the_next_known_one_starts(asked: int, answer: EpochEnd) -> None:
    """EP-3, EP-5, EP-6"""
    assert LeaderEpochFileCache(THREE).end_offset_for(asked, log_end_offset=500) == answer


def test_epoch_below_the_first_known_one_is_returned_with_the_first_start_offset() -> None:
    """EP-3"""
    assert LeaderEpochFileCache(THREE[1:]).end_offset_for(2, log_end_offset=500) == EpochEnd(2, 100)


def test_without_epochs_the_end_offset_is_undefined() -> None:
    """EP-3"""
    assert LeaderEpochFileCache().end_offset_for(0, log_end_offset=500) == EpochEnd(-1, -1)
    assert LeaderEpochFileCache().latest == -1


def test_epoch_for_offset_is_the_last_one_started_before_it() -> None:
    epochs = LeaderEpochFileCache(THREE[1:])
    assert [epochs.epoch_for_offset(offset) for offset in (99, 100, 249, 250, 9999)] == [
        -1,
        3,
        3,
        4,
        4,
    ]


@pytest.mark.parametrize(("end_offset", "kept"), [(251, 3), (250, 2), (101, 2), (100, 1), (0, 0)])
def test_truncation_at_the_end_removes_epochs_that_start_at_or_after_it(
    end_offset: int, kept: int
) -> None:
    """EP-2: a truncation that changes something must be saved before the next append."""
    epochs = LeaderEpochFileCache(THREE)
    assert epochs.truncate_from_end(end_offset) is (kept < 3)
    assert epochs.entries() == THREE[:kept]
    assert epochs.unsaved is (kept < 3)


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [
        (0, THREE),
        (50, [EpochEntry(0, 50), *THREE[1:]]),
        (100, THREE[1:]),
        (249, [EpochEntry(3, 249), THREE[2]]),
        (400, [EpochEntry(4, 400)]),
    ],
)
def test_truncation_at_the_start_keeps_the_epoch_that_spans_it(
    start_offset: int, left: list[EpochEntry]
) -> None:
    """EP-2"""
    epochs = LeaderEpochFileCache(THREE)
    epochs.truncate_from_start(start_offset)
    assert epochs.entries() == left
    assert epochs.unsaved is (left != THREE)


def test_truncation_below_the_first_epoch_changes_nothing() -> None:
    epochs = LeaderEpochFileCache(THREE[1:])
    epochs.truncate_from_start(50)
    assert epochs.entries() == THREE[1:]
    assert not epochs.unsaved


def test_clear_removes_all_epochs() -> None:
    epochs = LeaderEpochFileCache(THREE)
    epochs.clear()
    assert epochs.entries() == []
    assert epochs.unsaved


def test_the_file_has_one_line_per_epoch() -> None:
    assert LeaderEpochFileCache(THREE).encode() == b"0\n3\n0 0\n3 100\n4 250\n"
    assert decode(b"0\n3\n0 0\n3 100\n4 250\n").entries() == THREE


def test_empty_file_created_by_kafka_has_no_epochs() -> None:
    assert decode(b"").entries() == []


@pytest.mark.parametrize(
    "content",
    [
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0 x\n",
        b"0\n1\n4294967296 0\n",
        b"0\n2\n0 0\n",
        b"1\n0\n",
        b"\xff",
    ],
)
def test_corrupt_file_is_rejected(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        decode(content)
