"""Produce: acknowledgements, errors, and acks=0."""

import random

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, NodeId
from headwater.controller.elect_leaders import led_by
from headwater.metadata.changes import PartitionChanged
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER, read_header
from headwater.records.checksum import write_crc
from headwater.records.record import Record
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.labs.broker_lab import START_MS, BrokerLab, Sent

BATCH = build_batch([Record(key=b"k", value=b"v", timestamp=START_MS)])
NAMES_UP_TO = 12
LOG_STARTS_SINCE = 5


def produce(lab: BrokerLab, *topics: str, acks: int = -1, batch: bytes = BATCH) -> Sent:
    request = ProduceRequest(
        acks=acks,
        topic_data=tuple(
            TopicProduceData(
                name=each,
                partition_data=(PartitionProduceData(records=memoryview(bytearray(batch))),),
            )
            for each in topics
        ),
    )
    return lab.send(request, NAMES_UP_TO)


def results(sent: Sent) -> list[PartitionProduceResponse]:
    topics = sent.answer(ProduceResponse).responses
    return [each for topic in topics for each in topic.partition_responses]


def test_partitions_of_a_request_are_independent() -> None:
    lab = BrokerLab()
    lab.create("t")
    good, gone = results(produce(lab, "t", "gone"))
    assert good == PartitionProduceResponse(log_start_offset=0)
    assert gone == PartitionProduceResponse(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, base_offset=-1
    )
    assert list(lab.broker.image.topics) == ["t"]


def test_acks_0_has_no_response_and_an_error_closes_the_connection() -> None:
    """As in Kafka: closing the connection is the only signal."""
    lab = BrokerLab()
    lab.create("t")
    sent = produce(lab, "t", acks=0)
    assert sent.was_silent
    assert not sent.peer.is_closed
    sent = produce(lab, "gone", acks=0)
    assert sent.peer.is_closed
    assert lab.produce("t", b"next") == 1


@pytest.mark.parametrize("acks", [2, -2])
def test_acks_other_than_0_1_and_all_are_rejected(acks: int) -> None:
    lab = BrokerLab()
    lab.create("t")
    (result,) = results(produce(lab, "t", acks=acks))
    assert result.error_code is ErrorCode.INVALID_REQUIRED_ACKS


def test_too_small_an_isr_rejects_only_acks_all() -> None:
    """MIN-1: never more than the replication factor."""
    lab = BrokerLab()
    lab.create("t", configs={"min.insync.replicas": "2"})
    (result,) = results(produce(lab, "t"))
    assert result.error_code is ErrorCode.NONE


def test_topic_with_flush_messages_1_is_acknowledged_after_the_flush() -> None:
    held = HeldExecutor(random.Random(5))
    lab = BrokerLab(executor=held)
    lab.create("t", configs={"flush.messages": "1"})
    sent = produce(lab, "t", acks=1)
    assert not sent.is_answered
    assert not sent.is_held
    held.finish()
    (result,) = results(sent)
    assert result.error_code is ErrorCode.NONE


def test_duplicate_is_acknowledged_no_sooner_than_the_flush_of_the_original() -> None:
    held = HeldExecutor(random.Random(5))
    lab = BrokerLab(executor=held)
    lab.create("t", configs={"flush.messages": "1"})
    record = Record(value=b"v", timestamp=START_MS)
    batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
    first = produce(lab, "t", acks=1, batch=batch)
    again = produce(lab, "t", acks=1, batch=batch)
    assert not first.is_answered
    assert not again.is_answered
    held.finish()
    assert [each.base_offset for each in (*results(first), *results(again))] == [0, 0]
    (once_more,) = results(produce(lab, "t", acks=1, batch=batch))
    assert once_more.base_offset == 0


def test_batch_in_validation_is_not_appended_after_a_leader_change() -> None:
    held = HeldExecutor(random.Random(5))
    lab = BrokerLab(executor=held)
    lab.create("t", configs={"compression.type": "gzip"})
    hosted = lab.broker.partitions.find("t", 0)
    assert hosted is not None
    sent = produce(lab, "t", acks=1)
    assert not sent.is_answered
    elsewhere = led_by(hosted.state, NodeId(7), hosted.state.isr)
    lab.change(PartitionChanged("t", 0, elsewhere))
    held.finish()
    (result,) = results(sent)
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert hosted.open_log().end_offset == 0


@pytest.mark.parametrize("topics", [("t",), ("t", "u")])
def test_failed_flush_fails_the_requests_that_waited_for_it(topics: tuple[str, ...]) -> None:
    held = HeldExecutor(random.Random(5))
    lab = BrokerLab(executor=held)
    lab.create("t", configs={"flush.messages": "1"})
    lab.create("u")
    sent = produce(lab, *topics, acks=1)
    lab.disk.fail_next_sync("*/t-0/*.log")
    held.finish()
    codes = [result.error_code for result in results(sent)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE][: len(topics)]


def test_unexpected_error_on_the_fast_path_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lab = BrokerLab()
    lab.create("t")
    lab.produce("t", b"1")
    hosted = lab.broker.partitions.find("t", 0)
    assert hosted is not None
    hosted.readers[TrippingReader()] = None
    sent = produce(lab, "t", acks=1)
    (result,) = results(sent)
    assert result.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not sent.peer.is_closed
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert hosted.open_log().end_offset == 2, "the long way would have appended it again"


class TrippingReader:
    """Waits for bytes to read, and fails when there are some."""

    def more_to_read(self, size_bytes: int) -> None:
        raise ZeroDivisionError(f"a mistake of ours, after {size_bytes} bytes")


def test_clients_cannot_write_to_internal_topics() -> None:
    lab = BrokerLab()
    lab.create("__consumer_offsets")
    (result,) = results(produce(lab, "__consumer_offsets"))
    assert result.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_failed_disk_is_an_error_and_takes_the_directory_offline() -> None:
    lab = BrokerLab()
    lab.create("t")
    lab.produce("t", b"1")
    lab.disk.fail_next_write("*.log")
    (result,) = results(produce(lab, "t"))
    assert result.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    (again,) = results(produce(lab, "t"))
    assert again.error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_request_bytes_are_not_needed_after_the_request() -> None:
    """The lab overwrites them when the broker returns, as the next request would."""
    lab = BrokerLab()
    lab.create("t")
    for _ in range(3):
        results(produce(lab, "t"))
    hosted = lab.broker.partitions.find("t", 0)
    assert hosted is not None
    log = hosted.open_log()
    assert log.end_offset == 3
    assert log.first_since(START_MS) is not None


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(3, 14))
def test_fast_path_and_regular_path_answer_alike(version: int, acks: int) -> None:
    """The first batch of a log takes the regular path, since the log must be opened.

    Later ones take the fast path, if their version has one.
    """
    lab = BrokerLab()
    lab.create("t", 2)
    topic_id = lab.broker.image.topics["t"].topic_id
    by_id = version > NAMES_UP_TO
    for offset in range(3):
        data = PartitionProduceData(index=1, records=memoryview(bytearray(BATCH)))
        topic = TopicProduceData(name="t", topic_id=topic_id, partition_data=(data,))
        request = ProduceRequest(acks=acks, topic_data=(topic,))
        answer = lab.ask(request, ProduceResponse, version)
        assert answer == ProduceResponse(
            responses=(
                TopicProduceResponse(
                    name="" if by_id else "t",
                    topic_id=topic_id if by_id else NO_TOPIC_ID,
                    partition_responses=(
                        PartitionProduceResponse(
                            index=1,
                            base_offset=offset,
                            log_start_offset=0 if version >= LOG_STARTS_SINCE else -1,
                        ),
                    ),
                ),
            )
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_offset": 1},
        {"record_count": 2},
        {"attributes": 0x20},
        {"base_timestamp": START_MS * 2},
        {"magic": 1},
    ],
)
def test_fast_path_leaves_errors_to_the_regular_path(wrong: dict[str, int]) -> None:
    """Anything unusual takes the regular path, which reports the error."""
    lab = BrokerLab()
    lab.create("t")
    lab.produce("t", b"opens the log")
    batch = bytearray(BATCH)
    HEADER.pack_into(batch, 0, *read_header(BATCH)._replace(**wrong))
    write_crc(batch, 0, len(batch))
    (result,) = results(produce(lab, "t", batch=bytes(batch), acks=1))
    assert result.error_code is not ErrorCode.NONE
    assert lab.produce("t", b"next") == 1
