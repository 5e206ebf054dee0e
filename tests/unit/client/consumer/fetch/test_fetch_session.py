"""Incremental fetch sessions of the client (KIP-227, FT-5)."""

from headwater.client.consumer.fetch.fetch_session import (
    FetchPosition,
    FetchSessionHandler,
    SessionRequest,
)
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

ID, OTHER_ID = TopicId(b"a" * 16), TopicId(b"b" * 16)
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def want(partition: int, offset: int, topic_id: TopicId = ID) -> FetchPosition:
    return FetchPosition(topic_id, FetchPartition(partition=partition, fetch_offset=offset))


def topics(*wanted: FetchPosition) -> tuple[FetchTopic, ...]:
    partitions = tuple(each.partition for each in wanted)
    return (FetchTopic(topic="a", topic_id=wanted[0].topic_id, partitions=partitions),)


def begun() -> FetchSessionHandler:
    session = FetchSessionHandler()
    session.request({A0: want(0, 5), A1: want(1, 7)})
    session.handle_response(ErrorCode.NONE, 99)
    return session


def test_the_first_request_is_a_full_one_without_a_session() -> None:
    request = FetchSessionHandler().request({A0: want(0, 5), A1: want(1, 7)})
    assert request == SessionRequest(
        session_id=0,
        epoch=0,
        topics=topics(want(0, 5), want(1, 7)),
        forgotten=(),
        uses_ids=True,
    )


def test_the_next_request_has_only_the_changes() -> None:
    request = begun().request({A0: want(0, 6), A1: want(1, 7)})
    assert (request.session_id, request.epoch) == (99, 1)
    assert request.topics == topics(want(0, 6))
    assert request.forgotten == ()


def test_a_removed_partition_is_forgotten_and_sent_again_when_it_returns() -> None:
    session = begun()
    request = session.request({A1: want(1, 7)})
    assert request.topics == ()
    assert request.forgotten == (ForgottenTopic(topic="a", topic_id=ID, partitions=(0,)),)
    session.handle_response(ErrorCode.NONE, 99)
    request = session.request({A0: want(0, 5), A1: want(1, 7)})
    assert request.epoch == 2
    assert request.topics == topics(want(0, 5))


def test_a_recreated_topic_is_forgotten_under_its_old_id() -> None:
    request = begun().request({A0: want(0, 0, OTHER_ID), A1: want(1, 7)})
    assert request.topics == topics(want(0, 0, OTHER_ID))
    assert request.forgotten == (ForgottenTopic(topic="a", topic_id=ID, partitions=(0,)),)


def test_without_a_session_all_requests_are_full() -> None:
    session = FetchSessionHandler()
    session.request({A0: want(0, 5)})
    session.handle_response(ErrorCode.NONE, 0)
    request = session.request({A0: want(0, 6)})
    assert (request.session_id, request.epoch, request.topics) == (0, 0, topics(want(0, 6)))


def test_an_unknown_session_is_replaced() -> None:
    session = begun()
    session.request({A0: want(0, 6)})
    session.handle_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    request = session.request({A0: want(0, 6)})
    assert (request.session_id, request.epoch, request.topics) == (0, 0, topics(want(0, 6)))


def test_after_a_lost_response_a_new_session_replaces_the_old_one() -> None:
    session = begun()
    session.request({A0: want(0, 6)})
    session.handle_error()
    request = session.request({A0: want(0, 6)})
    assert (request.session_id, request.epoch, request.topics) == (99, 0, topics(want(0, 6)))


def test_a_topic_without_an_id_makes_the_session_use_names() -> None:
    session = begun()
    request = session.request({A0: want(0, 6, NO_TOPIC_ID), A1: want(1, 7)})
    assert (request.epoch, request.uses_ids) == (0, False)


def test_the_last_request_closes_the_session() -> None:
    session = begun()
    last = session.closing()
    assert last is not None
    assert (last.session_id, last.epoch, last.topics) == (99, -1, ())
    assert session.closing() is None
