"""When a follower is caught up: ISR-1."""

from dataclasses import dataclass

from headwater.replication import isr_state
from headwater.replication.follower_replica import FollowerReplica

LAG_MS = 1_000


@dataclass
class Session:
    fetched_ms: int
    broker_epoch: int = 7


def state(*, is_in_sync: bool = True, now_ms: int = 0) -> FollowerReplica:
    return FollowerReplica(is_in_sync=is_in_sync, now_ms=now_ms)


def fetch(
    follower: FollowerReplica,
    offset: int,
    *,
    leader_end: int,
    at_ms: int,
    session: Session | None = None,
) -> None:
    follower.update_fetch_state(
        offset=offset,
        log_start_offset=0,
        broker_epoch=7,
        leader_end=leader_end,
        now_ms=at_ms,
        session=session,
    )


def is_caught_up(follower: FollowerReplica, leader_end: int, now_ms: int) -> bool:
    return isr_state.is_caught_up(follower, leader_end, now_ms=now_ms, lag_max_ms=LAG_MS)


def test_a_new_leader_gives_isr_members_the_whole_lag_time_to_fetch() -> None:
    assert is_caught_up(state(now_ms=500), 10, now_ms=1_500)
    assert not is_caught_up(state(now_ms=500), 10, now_ms=1_501)
    assert not is_caught_up(state(is_in_sync=False), 10, now_ms=0)


def test_a_follower_at_the_log_end_is_caught_up_however_long_ago_it_fetched() -> None:
    follower = state()
    fetch(follower, 10, leader_end=10, at_ms=0)
    assert is_caught_up(follower, 10, now_ms=1_000_000)
    assert not is_caught_up(follower, 11, now_ms=1_000_000)


def test_a_follower_that_reaches_the_previous_log_end_was_caught_up_at_that_fetch() -> None:
    """A follower of a busy partition is never at the end, and is in sync all the same."""
    follower = state(is_in_sync=False)
    fetch(follower, 0, leader_end=10, at_ms=100)
    fetch(follower, 10, leader_end=20, at_ms=200)
    assert follower.caught_up_ms == 100
    fetch(follower, 20, leader_end=30, at_ms=300)
    assert follower.caught_up_ms == 200
    fetch(follower, 25, leader_end=40, at_ms=400)
    assert follower.caught_up_ms == 200


def test_an_idle_follower_was_caught_up_at_its_last_fetch_even_if_that_did_not_name_it() -> None:
    follower, session = state(), Session(fetched_ms=0)
    fetch(follower, 10, leader_end=10, at_ms=0, session=session)
    session.fetched_ms = 60_000
    follower.left_behind(10)
    assert follower.caught_up_ms == 60_000
    assert is_caught_up(follower, 11, now_ms=61_000)
    assert not is_caught_up(follower, 11, now_ms=61_001)


def test_an_append_does_not_catch_up_a_follower_that_was_behind() -> None:
    follower, session = state(), Session(fetched_ms=0)
    fetch(follower, 9, leader_end=10, at_ms=0, session=session)
    session.fetched_ms = 60_000
    follower.left_behind(10)
    assert follower.caught_up_ms == 0


def test_a_follower_whose_session_ended_is_not_fetching() -> None:
    follower, session = state(), Session(fetched_ms=0)
    fetch(follower, 10, leader_end=10, at_ms=0, session=session)
    assert follower.is_fetching(now_ms=1_000, lag_max_ms=LAG_MS)
    assert not follower.is_fetching(now_ms=1_001, lag_max_ms=LAG_MS)
    fetch(follower, 10, leader_end=10, at_ms=0, session=None)
    assert not follower.is_fetching(now_ms=0, lag_max_ms=LAG_MS)


def test_a_new_broker_epoch_is_noticed_without_naming_the_partition() -> None:
    """ISR-3: otherwise an idle follower would keep its old broker epoch forever."""
    follower, session = state(), Session(fetched_ms=0)
    fetch(follower, 10, leader_end=10, at_ms=0, session=session)
    assert follower.broker_epoch == 7
    session.broker_epoch = 8
    assert follower.broker_epoch == 8
