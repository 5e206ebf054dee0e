"""Next step of a move, and how much of an existing copy is kept."""

import pytest

from headwater.storage.log.leader_epoch_checkpoint import EpochEntry, LeaderEpochFileCache
from headwater.storage.log_manager.log_dir_move_steps import (
    LogExtent,
    MoveSizes,
    MoveStep,
    kept_end,
    next_step,
)

SIZES = MoveSizes(step_bytes=100, unflushed_bytes=1_000, final_copy_bytes=10)


def extent(start: int, end: int, *epochs: tuple[int, int], is_compacted: bool = False) -> LogExtent:
    return LogExtent(
        start=start,
        end=end,
        epochs=LeaderEpochFileCache(EpochEntry(*each) for each in epochs),
        is_compacted=is_compacted,
    )


@pytest.mark.parametrize(
    ("left_bytes", "unflushed_bytes", "expected"),
    [
        (5_000, 0, MoveStep.COPY),
        (5_000, 999, MoveStep.COPY),
        (5_000, 1_000, MoveStep.FLUSH),
        (11, 11, MoveStep.COPY),
        (10, 11, MoveStep.FLUSH),
        (10, 10, MoveStep.FINISH),
        (0, 0, MoveStep.FINISH),
    ],
)
def test_move_finishes_when_little_is_left_to_copy_and_flush(
    left_bytes: int, unflushed_bytes: int, expected: MoveStep
) -> None:
    step = next_step(
        SIZES,
        copy_end=7,
        original_start=7,
        left_bytes=left_bytes,
        unflushed_bytes=unflushed_bytes,
    )
    assert step is expected


def test_copy_that_ends_below_the_log_start_starts_over() -> None:
    step = next_step(SIZES, copy_end=6, original_start=7, left_bytes=0, unflushed_bytes=0)
    assert step is MoveStep.START_OVER


def test_copy_is_kept_up_to_its_end() -> None:
    assert kept_end(extent(0, 9, (0, 0)), extent(0, 5, (0, 0))) == 5


def test_copy_ahead_of_its_original_is_truncated() -> None:
    """A power cut took the end of the original, but not that of the copy."""
    assert kept_end(extent(0, 4, (0, 0)), extent(0, 7, (0, 0))) == 4


def test_copy_is_truncated_where_leader_epochs_diverge() -> None:
    original = extent(0, 9, (0, 0), (2, 3))
    assert kept_end(original, extent(0, 7, (0, 0))) == 3
    assert kept_end(original, extent(0, 7, (0, 0), (1, 2))) == 2
    assert kept_end(original, extent(0, 7, (0, 0), (2, 3))) == 7


def test_copy_that_starts_after_its_original_starts_over() -> None:
    assert kept_end(extent(2, 9, (0, 0)), extent(3, 5, (0, 3))) is None
    assert kept_end(extent(3, 9, (0, 3)), extent(2, 5, (0, 0))) == 5


def test_copy_that_ends_before_its_original_starts_over() -> None:
    assert kept_end(extent(6, 9, (0, 6)), extent(0, 5, (0, 0))) is None


@pytest.mark.parametrize("which", [0, 1])
def test_copy_of_a_compacted_log_starts_over(which: int) -> None:
    one, other = (extent(0, 9, (0, 0), is_compacted=each == which) for each in (0, 1))
    assert kept_end(one, other) is None
