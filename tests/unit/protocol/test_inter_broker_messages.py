"""Requests of Kafka's ZooKeeper era, for which no current foreign implementation exists."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from headwater.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from headwater.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from headwater.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from headwater.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from headwater.protocol.older_versions import Message
from tests.unit.protocol.bytes_of import read_bytes, written

TOPIC_ID = TopicId(b"0123456789abcdef")
LEADER_AND_ISR = LeaderAndIsrRequest(
    controller_id=1,
    controller_epoch=2,
    broker_epoch=3,
    type=1,
    topic_states=(
        LeaderAndIsrTopicState(
            topic_name="t",
            topic_id=TOPIC_ID,
            partition_states=(
                LeaderAndIsrPartitionState(
                    partition_index=4,
                    leader=1,
                    leader_epoch=6,
                    isr=(1, 2),
                    replicas=(1, 2, 3),
                    adding_replicas=(3,),
                    is_new=True,
                ),
            ),
        ),
    ),
    live_leaders=(LeaderAndIsrLiveLeader(broker_id=1, host_name="h", port=9092),),
)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (7, LEADER_AND_ISR),
        (
            7,
            LeaderAndIsrResponse(
                topics=(
                    LeaderAndIsrTopicError(
                        topic_id=TOPIC_ID,
                        partition_errors=(
                            LeaderAndIsrPartitionError(
                                partition_index=4, error_code=ErrorCode.STALE_CONTROLLER_EPOCH
                            ),
                        ),
                    ),
                )
            ),
        ),
        (
            4,
            StopReplicaRequest(
                controller_id=1,
                topic_states=(
                    StopReplicaTopicState(
                        topic_name="t",
                        partition_states=(
                            StopReplicaPartitionState(partition_index=4, delete_partition=True),
                        ),
                    ),
                ),
            ),
        ),
        (
            8,
            UpdateMetadataRequest(
                controller_id=1,
                topic_states=(
                    UpdateMetadataTopicState(
                        topic_name="t",
                        topic_id=TOPIC_ID,
                        partition_states=(
                            UpdateMetadataPartitionState(
                                partition_index=4, leader=1, replicas=(1, 2)
                            ),
                        ),
                    ),
                ),
                live_brokers=(
                    UpdateMetadataBroker(
                        id=1,
                        endpoints=(UpdateMetadataEndpoint(port=9092, host="h", listener="L"),),
                        rack="r",
                    ),
                ),
            ),
        ),
        (3, ControlledShutdownRequest(broker_id=1, broker_epoch=9)),
        (
            3,
            ControlledShutdownResponse(
                remaining_partitions=(RemainingPartition(topic_name="t", partition_index=4),)
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else "",
)
def test_inter_broker_messages_survive_a_round_trip(version: int, message: Message) -> None:
    assert read_bytes(type(message), version, written(message, version)) == message


def test_controlled_shutdown_bytes() -> None:
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=9)
    assert written(request, 3).hex(" ") == "00 00 00 01 00 00 00 00 00 00 00 09 00"


def test_shared_array_is_encoded_once_and_never_reused_for_another() -> None:
    """The next tuple may have the address of the last one, so the object identity counts."""
    states = tuple(UpdateMetadataTopicState(topic_name=f"t{number}") for number in range(3))
    first = UpdateMetadataRequest(broker_epoch=1, topic_states=states)
    second = UpdateMetadataRequest(broker_epoch=2, topic_states=states, order=7)
    for message in (first, second, UpdateMetadataRequest(), first, second):
        assert read_bytes(UpdateMetadataRequest, 8, written(message, 8)) == message
    longer = UpdateMetadataRequest(broker_epoch=1, topic_states=(*states, states[0]))
    assert len(written(longer, 8)) > len(written(first, 8))
    assert written(second, 8)[:12] == written(replace(second, topic_states=()), 8)[:12]


def test_transaction_version_of_a_marker_is_a_tagged_field_unknown_to_kafka() -> None:
    """KIP-1228. Messages of tools and other brokers are as in Kafka."""
    plain = WritableTxnMarker(producer_id=7, producer_epoch=1, coordinator_epoch=3)
    tagged = replace(plain, client_version=2)
    for marker in (plain, tagged):
        request = WriteTxnMarkersRequest(markers=(marker,))
        assert read_bytes(WriteTxnMarkersRequest, 1, written(request, 1)) == request
    bytes_of = [
        written(WriteTxnMarkersRequest(markers=(each,)), 1).hex(" ") for each in (plain, tagged)
    ]
    assert bytes_of[0].endswith("00 00 00 03 00 00")
    assert bytes_of[1].endswith("00 00 00 03 01 90 4e 01 02 00")
