"""`auto.offset.reset`: what a consumer does when its offset is out of range."""

import pytest

from headwater.client.consumer.auto_offset_reset import (
    AutoOffsetReset,
    OutOfRangeAction,
    on_offset_out_of_range,
)

BY_DURATION = AutoOffsetReset("by_duration", 1_000)


@pytest.mark.parametrize(
    "strategy", [AutoOffsetReset.EARLIEST, AutoOffsetReset.LATEST, BY_DURATION]
)
def test_an_offset_out_of_range_resets_the_position(strategy: AutoOffsetReset) -> None:
    action = on_offset_out_of_range(strategy, is_from_follower=False, has_buffered=False)
    assert action is OutOfRangeAction.RESET


def test_an_offset_out_of_range_fails_without_a_reset_strategy() -> None:
    action = on_offset_out_of_range(
        AutoOffsetReset.NONE, is_from_follower=False, has_buffered=False
    )
    assert action is OutOfRangeAction.FAIL


@pytest.mark.parametrize("strategy", [AutoOffsetReset.EARLIEST, AutoOffsetReset.NONE])
def test_buffered_records_are_returned_before_the_position_is_reset(
    strategy: AutoOffsetReset,
) -> None:
    action = on_offset_out_of_range(strategy, is_from_follower=False, has_buffered=True)
    assert action is OutOfRangeAction.RETRY


@pytest.mark.parametrize("has_buffered", [False, True])
def test_the_leader_is_asked_after_a_follower_rejected_the_offset(has_buffered: bool) -> None:
    action = on_offset_out_of_range(
        AutoOffsetReset.EARLIEST, is_from_follower=True, has_buffered=has_buffered
    )
    assert action is OutOfRangeAction.FETCH_FROM_LEADER
