"""Lag of groups on a broker in virtual time."""

from dataclasses import dataclass, field

from headwater.broker.coordinators.group_lag_sampler import GroupLagSampler, TopicLag
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import PartitionRegistration
from headwater.metadata.ports.inter_broker_client import OnResponse, Purpose
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.older_versions import Message
from tests.simulation.labs.broker_lab import BrokerLab

INTERVAL_MS = 5_000
OTHER = NodeId(7)


@dataclass
class Leader:
    """Another broker, whose partitions all end at one offset."""

    end_offset: int = 0
    requests: list[Message] = field(default_factory=list)

    def send_request(
        self,
        node_id: NodeId,
        request: Message,
        *,
        purpose: Purpose,
        timeout_ms: int,
        then: OnResponse,
        on_error: Failed,  # noqa: ARG002
    ) -> None:
        assert (node_id, purpose, timeout_ms) == (OTHER, Purpose.GROUP_LAG, INTERVAL_MS)
        assert isinstance(request, ListOffsetsRequest)
        self.requests.append(request)
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, offset=self.end_offset
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ]
        then(ListOffsetsResponse(topics=tuple(topics)))

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        raise AssertionError((node_id, purpose))


def started(
    texts: dict[str, str] | None = None, leader: Leader | None = None
) -> tuple[BrokerLab, GroupLagSampler]:
    lab = BrokerLab({"offsets.topic.num.partitions": "3", **(texts or {})})
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), FindCoordinatorResponse)
    lab.create("orders", partitions=3)
    broker = lab.broker
    sampler = GroupLagSampler(
        broker.settings,
        groups=broker.groups,
        partitions=broker.partitions,
        image=lambda: broker.image,
        clock=lab.clock,
        timer=broker.timer,
        node_id=broker.node_id,
        inter_broker_client=leader,
    )
    sampler.start()
    return lab, sampler


def commit(lab: BrokerLab, group: str, offsets: dict[int, int], topic: str = "orders") -> None:
    request = OffsetCommitRequest(
        group_id=group,
        topics=(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                    for number, offset in offsets.items()
                ),
            ),
        ),
    )
    answer = lab.ask(request, OffsetCommitResponse, 8)
    assert not any(each.error_code for topic in answer.topics for each in topic.partitions)


def pass_seconds(lab: BrokerLab, seconds: int) -> None:
    """In small steps, since a timer that is late samples late."""
    for _ in range(seconds * 5):
        lab.pass_time(200)


def test_lag_in_time_of_a_stalled_consumer_grows_by_the_second() -> None:
    lab, sampler = started()
    lab.produce("orders", b"1", b"2")
    commit(lab, "readers", {0: 2})
    pass_seconds(lab, 11)
    assert list(sampler.lags()) == [TopicLag("readers", "orders", 0, 0)]
    # The consumer stalls, the producer does not.
    began_ms = lab.clock.steady_ms()
    for second in range(1, 61):
        lab.produce("orders", b"next")
        pass_seconds(lab, 1)
        if second <= 6:
            continue
        (lag,) = sampler.lags()
        stalled_ms = lab.clock.steady_ms() - began_ms
        assert abs(lag.time_ms - stalled_ms) <= INTERVAL_MS
        assert second - 6 <= lag.records <= second
    # It reads everything.
    commit(lab, "readers", {0: 62})
    assert list(sampler.lags()) == [TopicLag("readers", "orders", 0, 0)]


def test_lag_of_a_topic_is_the_sum_of_records_and_the_oldest_next_record() -> None:
    lab, sampler = started()
    commit(lab, "readers", {0: 0, 1: 0, 2: 0})
    pass_seconds(lab, 6)
    lab.produce("orders", b"1", partition=0)
    pass_seconds(lab, 30)
    lab.produce("orders", b"1", b"2", partition=1)
    pass_seconds(lab, 10)
    (lag,) = sampler.lags()
    assert lag.records == 3
    assert abs(lag.time_ms - 40_000) <= INTERVAL_MS


def test_offsets_beyond_the_limit_are_omitted_and_counted() -> None:
    lab, sampler = started({"headwater.group.lag.partitions.max": "2"})
    commit(lab, "readers", {0: 0, 1: 0, 2: 0})
    for number in range(3):
        lab.produce("orders", b"1", partition=number)
    pass_seconds(lab, 11)
    (lag,) = sampler.lags()
    assert (lag.records, sampler.omitted) == (2, 1)


def test_no_lag_is_measured_with_a_limit_of_zero() -> None:
    lab, sampler = started({"headwater.group.lag.partitions.max": "0"})
    commit(lab, "readers", {0: 0})
    pass_seconds(lab, 11)
    assert list(sampler.lags()) == []
    assert sampler.omitted == 0


def test_end_offsets_of_other_leaders_come_from_list_offsets() -> None:
    leader = Leader(end_offset=10)
    lab, sampler = started(leader=leader)
    commit(lab, "readers", {0: 4, 1: 10})
    topic = lab.broker.image.topics["orders"]
    elsewhere = PartitionRegistration(replicas=(OTHER,), isr=(OTHER,), leader=OTHER)
    image = lab.broker.image
    # This broker has no replica of the topic.
    object.__setattr__(topic, "partitions", (elsewhere,) * 3)
    assert image.partition("orders", 0) is elsewhere
    for number in range(3):
        hosted = lab.broker.partitions.find("orders", number)
        assert hosted is not None
        hosted.log = None
    pass_seconds(lab, 6)
    (request,) = leader.requests
    assert isinstance(request, ListOffsetsRequest)
    assert request.replica_id == -1
    assert [each.partition_index for each in request.topics[0].partitions] == [0, 1]
    (lag,) = sampler.lags()
    assert lag.records == 6
