"""Fetch sessions: FT-5 to FT-8."""

import random
from functools import partial

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from headwater.replication.fetch.fetch_session import FetchContext, FetchSessionCache
from headwater.replication.fetch.follower_fetch_session import FollowerSession
from tests.simulation.fakes.seeded_random import SeededRandom

ID = TopicId(bytes(range(16)))
MINUTE_MS = 60_000


@pytest.fixture
def sessions() -> FetchSessionCache:
    return with_slots(10)


def with_slots(slots: int) -> FetchSessionCache:
    return FetchSessionCache(slots, SeededRandom(random.Random(1)))


def request(
    *partitions: int,
    session: int = 0,
    epoch: int = 0,
    offset: int = 0,
    forgotten: tuple[int, ...] = (),
    topic: str = "t",
) -> FetchRequest:
    asked = tuple(FetchPartition(partition=each, fetch_offset=offset) for each in partitions)
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=(FetchTopic(topic=topic, partitions=asked),) if asked else (),
        forgotten_topics_data=(ForgottenTopic(topic=topic, partitions=forgotten),)
        if forgotten
        else (),
    )


def resolve(
    sessions: FetchSessionCache, asked: FetchRequest, now_ms: int = 0, *, by_id: bool = False
) -> FetchContext:
    return sessions.resolve(asked, uses_topic_ids=by_id, now_ms=now_ms)


def begin(sessions: FetchSessionCache, *partitions: int, now_ms: int = 0) -> int:
    """Return the id of a new session, 0 if there was no room."""
    session = resolve(sessions, request(*partitions), now_ms).session
    return 0 if session is None else session.session_id


def offsets(fetching: FetchContext) -> dict[int, int]:
    return {each.number: each.offset for each in fetching.partitions}


def test_a_session_keeps_its_partitions_and_their_offsets(sessions: FetchSessionCache) -> None:
    """FT-7."""
    session = begin(sessions, 0, 1, 2)
    again = resolve(sessions, request(1, session=session, epoch=1, offset=7))
    assert again.is_incremental
    assert offsets(again) == {0: 0, 1: 7, 2: 0}
    less = resolve(sessions, request(3, session=session, epoch=2, forgotten=(0,)))
    assert offsets(less) == {1: 7, 2: 0, 3: 0}


def test_a_sessionless_fetch_keeps_nothing(sessions: FetchSessionCache) -> None:
    """FT-5: epoch -1."""
    once = resolve(sessions, request(0, epoch=-1))
    assert (once.session, once.is_incremental, len(sessions)) == (None, False, 0)
    assert offsets(once) == {0: 0}


def test_epoch_minus_one_closes_the_session(sessions: FetchSessionCache) -> None:
    session = begin(sessions, 0)
    resolve(sessions, request(0, session=session, epoch=-1))
    lost = resolve(sessions, request(session=session, epoch=1))
    assert lost.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_wrong_session_epoch_is_rejected_and_the_session_survives(
    sessions: FetchSessionCache,
) -> None:
    """FT-5: a retried request must not be taken for the next one."""
    session = begin(sessions, 0)
    for epoch in (2, 3):
        refused = resolve(sessions, request(session=session, epoch=epoch))
        assert refused.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert resolve(sessions, request(session=session, epoch=1)).error is None
    repeated = resolve(sessions, request(session=session, epoch=1))
    assert repeated.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_topic_names_and_topic_ids_do_not_mix_within_a_session(sessions: FetchSessionCache) -> None:
    session = begin(sessions, 0)
    mixed = resolve(sessions, request(session=session, epoch=1), by_id=True)
    assert mixed.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert resolve(sessions, request(session=session, epoch=1)).error is None


def test_the_session_epoch_wraps_from_the_largest_to_one(sessions: FetchSessionCache) -> None:
    session_id = begin(sessions, 0)
    session = sessions._sessions[session_id]
    session.epoch = 2**31 - 1
    assert resolve(sessions, request(session=session_id, epoch=2**31 - 1)).error is None
    assert session.epoch == 1


def test_a_session_without_partitions_is_closed(sessions: FetchSessionCache) -> None:
    """FT-7."""
    session = begin(sessions, 0)
    empty = resolve(sessions, request(session=session, epoch=1, forgotten=(0,)))
    assert (empty.session, len(sessions)) == (None, 0)


def test_partitions_with_data_move_to_the_end_of_the_read_order(
    sessions: FetchSessionCache,
) -> None:
    """FT-6."""
    session_id = begin(sessions, 0, 1, 2)
    first = resolve(sessions, request(session=session_id, epoch=1))
    assert first.session is not None
    first.session.move_to_end(first.partitions[0])
    second = resolve(sessions, request(session=session_id, epoch=2))
    assert [each.number for each in second.partitions] == [1, 2, 0]


def test_a_full_cache_creates_no_session_while_all_are_recent() -> None:
    """FT-8."""
    sessions = with_slots(2)
    assert begin(sessions, 0)
    assert begin(sessions, 0)
    assert begin(sessions, 0, 1, 2, now_ms=2 * MINUTE_MS) == 0
    assert len(sessions) == 2


def test_a_session_unused_for_two_minutes_is_evicted() -> None:
    """FT-8."""
    sessions = with_slots(2)
    idle, busy = begin(sessions, 0, 1), begin(sessions, 0, 1)
    resolve(sessions, request(session=busy, epoch=1), 2 * MINUTE_MS)
    assert begin(sessions, 0, now_ms=2 * MINUTE_MS + 1)
    assert resolve(sessions, request(session=idle, epoch=1)).error
    assert sessions.evicted_count == 1


def test_a_larger_session_evicts_a_smaller_one_of_sufficient_age() -> None:
    """FT-8."""
    sessions = with_slots(2)
    small, large = begin(sessions, 0), begin(sessions, 0, 1, 2)
    later_ms = 2 * MINUTE_MS
    for session in (small, large):
        resolve(sessions, request(session=session, epoch=1), later_ms)
    assert begin(sessions, 0, now_ms=later_ms + 1) == 0
    assert begin(sessions, 0, 1, now_ms=later_ms + 1)
    assert resolve(sessions, request(session=small, epoch=2)).error
    assert resolve(sessions, request(session=large, epoch=2)).error is None


def test_topics_are_distinguished_by_id(sessions: FetchSessionCache) -> None:
    asked = FetchRequest(
        session_epoch=0,
        topics=(
            FetchTopic(topic_id=ID, partitions=(FetchPartition(partition=0),)),
            FetchTopic(topic_id=TopicId(bytes(16)), partitions=(FetchPartition(partition=0),)),
        ),
    )
    assert len(resolve(sessions, asked, by_id=True).partitions) == 2


def test_a_follower_session_evicts_a_consumer_session_but_not_vice_versa() -> None:
    """FT-8."""
    sessions = with_slots(1)
    consumer = begin(sessions, 0, 1, 2)
    follower = sessions.resolve(
        request(0),
        uses_topic_ids=False,
        now_ms=0,
        new_session=partial(FollowerSession, replica_id=NodeId(2)),
    )
    assert follower.session is not None
    assert sessions.get(consumer) is None
    assert begin(sessions, 0, 1, 2, now_ms=MINUTE_MS) == 0
    assert begin(sessions, 0, 1, 2, now_ms=2 * MINUTE_MS) == 0
