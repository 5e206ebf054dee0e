"""ListOffsets, OffsetForLeaderEpoch, DescribeProducers and InitProducerId."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NO_PRODUCER, TopicId
from headwater.controller.elect_leaders import led_by
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import PartitionChanged, TopicCreated
from headwater.metadata.cluster_image import NO_LEADER, TopicImage
from headwater.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.labs.broker_lab import START_MS, BrokerLab

OTHER_BROKER = 7


def renewed(lab: BrokerLab, topic: str = "t") -> None:
    """The same leader with the next leader epoch."""
    before = lab.broker.image.topics[topic].partitions[0]
    lab.change(PartitionChanged(topic, 0, led_by(before, before.leader, before.isr)))


def without_leader(lab: BrokerLab, topic: str) -> None:
    """The partition is on this broker and has no leader."""
    lab.create(topic)
    before = lab.broker.image.topics[topic].partitions[0]
    lab.change(PartitionChanged(topic, 0, led_by(before, NO_LEADER, ())))


def elsewhere(lab: BrokerLab, topic: str) -> None:
    """The partition is on another broker."""
    made = TopicImage(
        name=topic, topic_id=TopicId(b"e" * 16), partitions=(new_partition([OTHER_BROKER]),)
    )
    lab.change(TopicCreated(made))


def offset_at(
    lab: BrokerLab, *timestamps: int, version: int = 10, epoch: int = -1, topic: str = "t"
) -> list[ListOffsetsPartitionResponse]:
    found: list[ListOffsetsPartitionResponse] = []
    for timestamp in timestamps:
        asked = ListOffsetsPartition(timestamp=timestamp, current_leader_epoch=epoch)
        request = ListOffsetsRequest(
            topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),), replica_id=-1
        )
        (result,) = lab.ask(request, ListOffsetsResponse, version).topics
        found += result.partitions
    return found


def test_earliest_latest_and_timestamp_offsets() -> None:
    """LO-1, LO-2."""
    lab = BrokerLab()
    lab.create("t")
    assert [each.offset for each in offset_at(lab, -1, -2, -3, -4, -5, 0)] == [0, 0, -1, 0, -1, -1]
    lab.produce("t", b"1", b"2")
    latest, earliest, largest, by_time, later = offset_at(lab, -1, -2, -3, START_MS, START_MS + 1)
    assert (latest.offset, latest.timestamp, latest.leader_epoch) == (2, -1, 0)
    assert (earliest.offset, earliest.timestamp) == (0, -1)
    assert (largest.offset, largest.timestamp) == (0, START_MS)
    assert (by_time.offset, by_time.timestamp, by_time.leader_epoch) == (0, START_MS, 0)
    assert (later.offset, later.timestamp, later.leader_epoch) == (-1, -1, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10)])
def test_special_timestamps_need_their_version(timestamp: int, version: int) -> None:
    """LO-1."""
    lab = BrokerLab()
    lab.create("t")
    (refused,) = offset_at(lab, timestamp, version=version)
    assert refused.error_code is ErrorCode.UNSUPPORTED_VERSION
    if timestamp > -6:
        (found,) = offset_at(lab, timestamp, version=version + 1)
        assert found.error_code is ErrorCode.NONE


def test_repeated_partition_is_rejected_once() -> None:
    """LO-4."""
    lab = BrokerLab()
    lab.create("t")
    twice = ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(timestamp=-1),) * 2)
    (result,) = lab.ask(ListOffsetsRequest(topics=(twice,)), ListOffsetsResponse).topics
    assert [each.error_code for each in result.partitions] == [ErrorCode.INVALID_REQUEST]


def test_stale_and_future_leader_epochs_are_rejected() -> None:
    """EP-4."""
    lab = BrokerLab()
    lab.create("t")
    renewed(lab)
    codes = [offset_at(lab, -1, epoch=epoch)[0].error_code for epoch in (0, 1, 2, -1)]
    assert codes == [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NONE,
    ]


def ends(lab: BrokerLab, *epochs: int, topic: str = "t") -> list[EpochEndOffset]:
    asked = tuple(OffsetForLeaderPartition(leader_epoch=epoch) for epoch in epochs)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(OffsetForLeaderTopic(topic=topic, partitions=asked),)
    )
    (result,) = lab.ask(request, OffsetForLeaderEpochResponse).topics
    return list(result.partitions)


def test_epoch_ends_where_the_next_one_begins() -> None:
    """EP-3: -1 is undefined, and below the first epoch the requested one is returned."""
    lab = BrokerLab()
    lab.create("t")
    lab.produce("t", b"1", b"2")
    renewed(lab)
    lab.produce("t", b"3")
    assert [(each.leader_epoch, each.end_offset) for each in ends(lab, 0, 1, 2, -1, -7)] == [
        (0, 2),
        (1, 3),
        (-1, -1),
        (-1, -1),
        (-7, 0),
    ]


def test_partition_on_another_broker_is_not_an_unknown_partition() -> None:
    lab = BrokerLab()
    without_leader(lab, "headless")
    elsewhere(lab, "elsewhere")
    for topic, code in [
        ("headless", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("elsewhere", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]:
        assert offset_at(lab, -1, topic=topic)[0].error_code is code
        assert ends(lab, 0, topic=topic) == [EpochEndOffset(error_code=code)]
        request = DescribeProducersRequest(
            topics=(TopicRequest(name=topic, partition_indexes=(0,)),)
        )
        (described,) = lab.ask(request, DescribeProducersResponse).topics
        assert described.partitions[0].error_code is code


def test_producers_are_described_by_their_last_batch() -> None:
    lab = BrokerLab()
    lab.create("t")
    records = [Record(key=None, value=b"v", timestamp=START_MS)] * 2
    batch = build_batch(records, producer_id=5, producer_epoch=3, base_sequence=0)
    data = PartitionProduceData(records=memoryview(batch))
    topic = TopicProduceData(name="t", partition_data=(data,))
    lab.ask(ProduceRequest(acks=-1, topic_data=(topic,)), ProduceResponse, 12)
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0, 9)),))
    (described,) = lab.ask(request, DescribeProducersResponse).topics
    here, nowhere = described.partitions
    assert here.active_producers == (
        ProducerState(
            producer_id=5,
            producer_epoch=3,
            last_sequence=1,
            last_timestamp=START_MS,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        ),
    )
    assert nowhere.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


NEW = InitProducerIdRequest(transactional_id=None)


def init(lab: BrokerLab, request: InitProducerIdRequest = NEW) -> InitProducerIdResponse:
    return lab.ask(request, InitProducerIdResponse)


def test_every_producer_gets_a_new_id_whatever_it_had() -> None:
    lab = BrokerLab()
    answers = [init(lab), init(lab), init(lab, replace(NEW, producer_id=0, producer_epoch=4))]
    assert [each.producer_id for each in answers] == [0, 1, 2]
    assert {(each.producer_epoch, each.error_code) for each in answers} == {(0, ErrorCode.NONE)}


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        (replace(NEW, producer_id=1), "INVALID_REQUEST"),
        (replace(NEW, producer_epoch=1), "INVALID_REQUEST"),
        (replace(NEW, producer_id=-2), "INVALID_REQUEST"),
        (InitProducerIdRequest(transactional_id=""), "INVALID_REQUEST"),
        (InitProducerIdRequest(transactional_id="x"), "INVALID_TRANSACTION_TIMEOUT"),
        (
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=900_001),
            "INVALID_TRANSACTION_TIMEOUT",
        ),
        (
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1),
            "NOT_COORDINATOR",
        ),
    ],
)
def test_failed_allocation_of_a_producer_id_is_an_error(
    request_of: InitProducerIdRequest, code: str
) -> None:
    assert init(BrokerLab(), request_of) == InitProducerIdResponse(
        error_code=ErrorCode[code], producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH
    )
