"""Fetch requests of a follower, and how it applies the responses."""

import logging

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.records.batch_building import build_batch
from headwater.records.batch_stamping import assign_offset
from headwater.records.record import Record
from headwater.replication.partition import Partition
from headwater.replication.replica_fetcher import (
    FetchSettings,
    ReplicaFetcher,
    ReplicaFetcherServices,
)
from tests.simulation.fakes.scripted_inter_broker_client import ScriptedInterBrokerClient
from tests.simulation.labs.broker_lab import BrokerLab

LEADER = NodeId(9)
SESSION = 5
SETTINGS = FetchSettings(wait_max_ms=500, backoff_ms=1_000, min_bytes=7, max_bytes=1_234)


class Lab:
    """A fetcher of one leader and partitions of a broker that it fetches."""

    def __init__(self) -> None:
        self.broker = BrokerLab()
        self.broker.create("t", 3)
        self.inter_broker_client = ScriptedInterBrokerClient()
        self.noted: list[int] = []
        self.throttled: dict[Partition, None] = {}
        tools = ReplicaFetcherServices(
            node_id=NodeId(2),
            broker_epoch=lambda: 42,
            inter_broker_client=self.inter_broker_client,
            clock=self.broker.clock,
            timer=self.broker.broker.timer,
            settings=SETTINGS,
            may_fetch=lambda hosted: hosted not in self.throttled,
            record_bytes=lambda _, size_bytes: self.noted.append(size_bytes),
        )
        self.fetcher = ReplicaFetcher(LEADER, tools)

    def partition(self, number: int) -> Partition:
        found = self.broker.broker.partitions.find("t", number)
        assert found is not None
        found.open_log()
        return found

    @property
    def topic_id(self) -> TopicId:
        return self.partition(0).topic.topic_id

    def follow(self, *numbers: int) -> None:
        for number in numbers:
            self.fetcher.follow(self.partition(number))
        self.pass_time(0)

    def pass_time(self, duration_ms: int) -> None:
        self.broker.clock.move(duration_ms)
        self.broker.broker.timer.expire(self.broker.clock.steady_ms())

    def begin(self, *numbers: int) -> None:
        """Follow, and have a session."""
        self.follow(*numbers)
        self.answer()

    @property
    def last(self) -> FetchRequest:
        request = self.inter_broker_client.asked[-1].request
        assert isinstance(request, FetchRequest)
        return request

    @property
    def count(self) -> int:
        return len(self.inter_broker_client.asked)

    def answer(
        self, *partitions: PartitionData, question: int = -1, error: ErrorCode = ErrorCode.NONE
    ) -> None:
        topics = (FetchableTopicResponse(topic_id=self.topic_id, partitions=partitions),)
        response = FetchResponse(
            error_code=error, session_id=SESSION, responses=topics if partitions else ()
        )
        self.inter_broker_client.asked[question].answer(response)


def named(request: FetchRequest) -> dict[int, int]:
    """The partitions and offsets that a request names."""
    return {
        each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions
    }


def taken_back(request: FetchRequest) -> list[int]:
    return [number for topic in request.forgotten_topics_data for number in topic.partitions]


def batch(offset: int, *, epoch: int = 0, count: int = 1) -> bytes:
    records = [Record(value=b"tea", timestamp=1) for _ in range(count)]
    made = bytearray(build_batch(records))
    assign_offset(made, 0, offset, epoch)
    return bytes(made)


def data(number: int, records: bytes = b"", *, high_watermark: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=number, high_watermark=high_watermark, log_start_offset=0, records=records
    )


def test_the_first_fetch_names_all_partitions_and_does_not_wait() -> None:
    lab = Lab()
    lab.follow(0, 1)
    (question,) = lab.inter_broker_client.asked
    assert (question.node_id, question.purpose) == (LEADER, Purpose.REPLICATION)
    request = lab.last
    assert named(request) == {0: 0, 1: 0}
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (0, 0, 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 42)
    assert request.topics[0].partitions[0].partition_max_bytes == 1_234


def test_an_unchanged_partition_is_not_named_again() -> None:
    """KIP-227: an idle partition costs nothing."""
    lab = Lab()
    lab.begin(0, 1)
    request = lab.last
    assert (request.topics, request.forgotten_topics_data) == ((), ())
    assert (request.session_id, request.session_epoch) == (SESSION, 1)
    assert (request.max_wait_ms, request.min_bytes) == (500, 7)
    lab.answer()
    assert lab.last.session_epoch == 2


def test_fetched_records_are_appended_and_the_next_fetch_continues_after_them() -> None:
    """EP-9, HW-5."""
    lab = Lab()
    lab.begin(0, 1)
    content = batch(0, count=3)
    lab.answer(data(1, content, high_watermark=2))
    log = lab.partition(1).open_log()
    assert (log.end_offset, log.high_watermark) == (3, 2)
    assert named(lab.last) == {1: 3}
    assert lab.noted == [len(content)]


def test_a_new_partition_does_not_wait_for_the_end_of_a_long_fetch() -> None:
    lab = Lab()
    lab.begin(0)
    assert lab.count == 2
    lab.follow(1)
    assert lab.count == 3
    assert (named(lab.last), lab.last.session_epoch) == ({1: 0}, 2)
    lab.follow(2)
    assert lab.count == 3, "two at a time are enough"
    lab.answer(question=1)
    assert named(lab.last) == {2: 0}


def test_a_response_for_an_old_offset_is_not_applied() -> None:
    """The second of two requests in flight may return the same records as the first."""
    lab = Lab()
    lab.begin(0)
    lab.follow(1)
    lab.answer(data(0, batch(0)), question=1)
    lab.answer(data(0, batch(0)), question=2)
    assert lab.partition(0).open_log().end_offset == 1
    assert named(lab.last) == {0: 1}


def test_a_response_to_a_request_before_the_last_update_is_not_applied() -> None:
    """Two requests are in flight after a partition was added; both return the same batch."""
    lab = Lab()
    lab.begin(0)
    lab.follow(1)
    first, second = lab.count - 2, lab.count - 1
    lab.answer(data(0, batch(0)), question=first)
    lab.follow(2)
    assert named(lab.last) == {0: 1, 2: 0}
    lab.answer(data(0, batch(0)), question=second)
    lab.pass_time(0)
    log = lab.partition(0).log
    assert log is not None
    assert log.end_offset == 1
    lab.answer(data(0, batch(1)), question=lab.count - 1)
    assert log.end_offset == 2, "it was neither confused nor left alone"


def test_an_unknown_session_is_created_again_at_once() -> None:
    lab = Lab()
    lab.begin(0, 1)
    lab.answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (lab.last.session_id, named(lab.last)) == (0, {0: 0, 1: 0})
    lab.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    asked = lab.count
    lab.pass_time(49)
    assert lab.count == asked
    lab.pass_time(1)
    assert lab.count == asked + 1


def test_the_backoff_grows_for_a_leader_that_does_not_answer() -> None:
    """Up to `replica.fetch.backoff.ms`."""
    lab = Lab()
    lab.begin(0)
    for rest_ms in (50, 100, 200, 400, 800, 1_000, 1_000):
        lab.inter_broker_client.asked[-1].fail()
        asked = lab.count
        lab.pass_time(rest_ms - 1)
        assert lab.count == asked
        lab.pass_time(1)
        assert (lab.count, lab.last.session_id, named(lab.last)) == (asked + 1, 0, {0: 0})
    lab.answer()
    lab.inter_broker_client.asked[-1].fail()
    asked = lab.count
    lab.pass_time(50)
    assert lab.count == asked + 1


def test_an_unreachable_leader_is_logged_once_and_its_return_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headwater.replication.replica_fetcher")
    lab = Lab()
    lab.begin(0)
    for _ in range(20):
        lab.inter_broker_client.asked[-1].fail()
        lab.pass_time(SETTINGS.backoff_ms)
    lab.answer()
    lab.answer()
    assert caplog.messages == [
        "Leader does not answer fetch requests: leader=9 error=the test says so",
        "Leader answers fetch requests again: leader=9",
    ]


def test_a_new_partition_ends_the_backoff() -> None:
    lab = Lab()
    lab.begin(0)
    lab.inter_broker_client.asked[-1].fail()
    lab.follow(1)
    assert named(lab.last) == {0: 0, 1: 0}


def test_an_unfollowed_partition_is_forgotten_and_its_responses_are_dropped() -> None:
    lab = Lab()
    lab.begin(0, 1)
    lab.fetcher.unfollow(lab.partition(0))
    lab.answer(data(0, batch(0)))
    assert lab.partition(0).open_log().end_offset == 0
    assert taken_back(lab.last) == [0]
    lab.fetcher.unfollow(lab.partition(1))
    asked = lab.count
    lab.answer()
    assert lab.count == asked, "there is nothing to ask for"


def test_a_response_for_an_older_leader_epoch_is_dropped() -> None:
    lab = Lab()
    lab.begin(0)
    hosted = lab.partition(0)
    lab.fetcher.unfollow(hosted)
    lab.fetcher.follow(hosted)
    lab.answer(data(0, batch(0)))
    assert hosted.open_log().end_offset == 0
    assert named(lab.last) == {0: 0}


def test_following_again_in_the_same_epoch_changes_nothing() -> None:
    lab = Lab()
    lab.begin(0)
    lab.follow(0)
    assert lab.count == 2


def test_a_partition_with_an_error_is_delayed_and_the_others_continue() -> None:
    lab = Lab()
    lab.begin(0, 1)
    error = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    lab.answer(error, data(1, batch(0)))
    assert (named(lab.last), taken_back(lab.last)) == ({1: 1}, [0])
    for rest_ms in (50, 100, 200, 400, 800, 1_000, 1_000):
        lab.pass_time(rest_ms - 1)
        assert named(lab.last) != {0: 0}
        lab.pass_time(1)
        assert named(lab.last) == {0: 0}
        lab.answer(error)
        lab.answer()


def test_a_delayed_partition_ignores_a_second_response_in_flight() -> None:
    lab = Lab()
    lab.begin(0)
    lab.follow(1)
    error = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    lab.answer(error, question=1)
    lab.answer(data(0, batch(0)), question=2)
    assert lab.partition(0).open_log().end_offset == 0
    assert named(lab.last) == {}


def test_a_batch_of_a_newer_epoch_is_not_appended() -> None:
    """EP-8: its leader is not the one that this replica follows."""
    lab = Lab()
    lab.begin(0)
    lab.answer(data(0, batch(0) + batch(1, epoch=1)))
    assert lab.partition(0).open_log().end_offset == 1
    asked = lab.count
    lab.answer(data(0, batch(1, epoch=1)))
    assert lab.partition(0).open_log().end_offset == 1
    assert lab.count == asked, "there is nothing else to ask for, and this is not asked at once"


def test_a_damaged_batch_is_not_appended_and_fetched_again() -> None:
    lab = Lab()
    lab.begin(0)
    torn = bytearray(batch(0))
    torn[-1] ^= 1
    lab.answer(data(0, bytes(torn)))
    assert lab.partition(0).open_log().end_offset == 0
    lab.pass_time(1_000)
    assert named(lab.last) == {0: 0}


def test_a_diverging_log_is_truncated() -> None:
    """EP-6."""
    lab = Lab()
    lab.begin(0)
    lab.answer(data(0, batch(0) + batch(1)))
    diverging = PartitionData(
        partition_index=0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=1), records=b""
    )
    lab.answer(diverging)
    assert lab.partition(0).open_log().end_offset == 1
    assert named(lab.last) == {0: 1}


def listed(offset: int) -> ListOffsetsResponse:
    found = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
    return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=(found,)),))


def test_offset_out_of_range_triggers_a_lookup_of_the_leaders_range() -> None:
    """EP-7. The partition is led here too, so the lookup ends with a wrong epoch."""
    lab = Lab()
    lab.begin(0, 1)
    error = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    lab.answer(error)
    question = next(
        each
        for each in lab.inter_broker_client.asked
        if isinstance(each.request, ListOffsetsRequest)
    )
    request = question.request
    assert isinstance(request, ListOffsetsRequest)
    assert (request.replica_id, request.topics[0].partitions[0].timestamp) == (2, -1)
    question.answer(listed(70))
    request = lab.inter_broker_client.asked[-1].request
    assert isinstance(request, ListOffsetsRequest)
    assert request.topics[0].partitions[0].timestamp == -2


def test_a_throttled_partition_is_fetched_when_the_quota_allows() -> None:
    lab = Lab()
    lab.begin(0, 1)
    lab.throttled[lab.partition(0)] = None
    lab.answer(data(0, batch(0)), data(1, batch(0)))
    assert (named(lab.last), taken_back(lab.last)) == ({1: 1}, [0])
    lab.throttled.clear()
    lab.pass_time(1_000)
    assert named(lab.last) == {0: 1}


def test_without_a_session_every_request_names_all_partitions() -> None:
    lab = Lab()
    lab.follow(0, 1)
    for _ in range(2):
        lab.inter_broker_client.asked[-1].answer(FetchResponse(session_id=0))
        assert (lab.last.session_id, lab.last.session_epoch) == (0, 0)
        assert named(lab.last) == {0: 0, 1: 0}


def test_a_closed_fetcher_sends_nothing() -> None:
    lab = Lab()
    lab.begin(0)
    asked = lab.count
    lab.fetcher.close()
    lab.answer(data(0, batch(0)))
    lab.pass_time(10_000)
    assert (lab.count, lab.partition(0).open_log().end_offset) == (asked, 0)
