"""DeleteTopics, CreatePartitions and DeleteRecords, from the frame to the log."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.simulation.labs.broker_lab import DATA, BrokerLab

DELETE_T = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)


def test_deleted_topic_loses_its_logs() -> None:
    """TO-4: at once for clients, later on disk."""
    lab = BrokerLab()
    lab.create("t", configs={"file.delete.delay.ms": "1000"})
    lab.produce("t", b"v")
    topic_id = lab.broker.image.topics["t"].topic_id
    response = lab.ask(DELETE_T, DeleteTopicsResponse)
    assert response.responses == (DeletableTopicResult(name="t", topic_id=topic_id),)
    assert lab.broker.partitions.find("t", 0) is None
    assert TopicPartition("t", 0) not in lab.broker.directories
    assert "t-0" not in lab.disk.names(DATA)
    # A new topic of the same name is a different topic.
    lab.create("t")
    assert lab.produce("t", b"v") == 0


@pytest.mark.parametrize(
    ("version", "code"), [(2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")]
)
def test_topic_deletion_can_be_disabled(version: int, code: str) -> None:
    lab = BrokerLab({"delete.topic.enable": "false"})
    lab.create("t")
    (result,) = lab.ask(DELETE_T, DeleteTopicsResponse, version).responses
    assert result.error_code is ErrorCode[code]
    assert "t" in lab.broker.image.topics


def test_added_partitions_accept_records_at_once() -> None:
    """TO-5."""
    lab = BrokerLab()
    lab.create("t", 1)
    asked = CreatePartitionsTopic(name="t", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=(asked,), timeout_ms=1_000)
    (result,) = lab.ask(request, CreatePartitionsResponse).results
    assert not result.error_code
    assert lab.produce("t", b"v", partition=2) == 0


def delete_records(lab: BrokerLab, **offsets: int) -> list[tuple[int, str]]:
    """Return low watermark and error for partition 0 of each topic."""
    request = DeleteRecordsRequest(
        topics=tuple(
            DeleteRecordsTopic(name=name, partitions=(DeleteRecordsPartition(offset=offset),))
            for name, offset in offsets.items()
        )
    )
    results = [each.partitions[0] for each in lab.ask(request, DeleteRecordsResponse).topics]
    return [(each.low_watermark, each.error_code.name) for each in results]


def test_records_are_deleted_up_to_the_high_watermark() -> None:
    """DR-1."""
    lab = BrokerLab()
    lab.create("t")
    lab.produce("t", b"1", b"2", b"3")
    assert delete_records(lab, t=2) == [(2, "NONE")]
    assert delete_records(lab, t=1) == [(2, "NONE")]
    assert delete_records(lab, t=-1) == [(3, "NONE")]
    assert delete_records(lab, t=4) == [(-1, "OFFSET_OUT_OF_RANGE")]
    assert delete_records(lab, t=-2) == [(-1, "OFFSET_OUT_OF_RANGE")]


def test_delete_records_is_rejected_where_it_makes_no_sense() -> None:
    """DR-1, CP-9."""
    lab = BrokerLab()
    lab.create("compacted", configs={"cleanup.policy": "compact"})
    lab.ask(FindCoordinatorRequest(coordinator_keys=("g",)), FindCoordinatorResponse)
    assert delete_records(lab, compacted=0, gone=0, __consumer_offsets=0) == [
        (-1, "POLICY_VIOLATION"),
        (-1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (-1, "INVALID_TOPIC_EXCEPTION"),
    ]


def test_repeated_partition_is_answered_once_with_the_last_offset() -> None:
    """As in Kafka 4.1."""
    lab = BrokerLab()
    lab.create("t")
    lab.produce("t", b"1", b"2", b"3")
    asked = tuple(
        DeleteRecordsTopic(name="t", partitions=(DeleteRecordsPartition(offset=offset),))
        for offset in (3, 1)
    )
    (topic,) = lab.ask(DeleteRecordsRequest(topics=asked), DeleteRecordsResponse).topics
    assert topic.partitions == (DeleteRecordsPartitionResult(low_watermark=1),)
