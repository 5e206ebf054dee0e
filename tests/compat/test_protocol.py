"""We decode requests of other clients, and they decode our responses.

kafka-python 3 has its own layout over Kafka's message definitions, aiokafka schemas written by
hand.
"""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.network.receive_buffer import ReceiveBuffer
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_versions_response import Feature, api_versions_responses
from headwater.protocol.codec import read_request, write_response
from headwater.protocol.headers import read_request_header, response_frame
from headwater.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headwater.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headwater.protocol.older_versions import Message
from tests.compat.foreign import load
from tests.unit.protocol.bytes_of import joined, read_bytes

aiokafka_fetch = load("aiokafka.protocol.fetch")
aiokafka_metadata = load("aiokafka.protocol.metadata")
aiokafka_produce = load("aiokafka.protocol.produce")

TOPIC_ID = TopicId(bytes(range(16)))
METADATA = MetadataResponse(
    brokers=(MetadataResponseBroker(node_id=1, host="h", port=9092, rack="r"),),
    cluster_id="c",
    controller_id=1,
    topics=(
        MetadataResponseTopic(
            name="t",
            topic_id=TOPIC_ID,
            partitions=(
                MetadataResponsePartition(
                    partition_index=0,
                    leader_id=1,
                    leader_epoch=5,
                    replica_nodes=(1, 2),
                    isr_nodes=(1,),
                    offline_replicas=(2,),
                ),
            ),
        ),
        MetadataResponseTopic(name="u", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ),
)


def received(framed: bytes) -> tuple[str, int, Message]:
    """Return client id, correlation id and request of a frame."""
    buffer = ReceiveBuffer(1 << 20)
    buffer.get_buffer()[: len(framed)] = framed
    buffer.buffer_updated(len(framed))
    frame = buffer.next_frame()
    assert frame is not None
    header = read_request_header(frame)
    request = read_request(header.api.key, header.version, frame[header.body_position :])
    return header.client_id, header.correlation_id, request


class TestKafkaPython:
    """The client's classes support any version; before 3.0 it had none like these."""

    @pytest.fixture(autouse=True)
    def _new_enough(self) -> None:
        if int(load("kafka").__version__.split(".")[0]) < 3:
            pytest.skip("this kafka-python has no such classes")

    @pytest.mark.parametrize("version", range(14))
    def test_metadata_requests_are_decoded(self, version: int) -> None:
        foreign = load("kafka.protocol.metadata").MetadataRequest
        request = foreign(
            topics=[foreign.MetadataRequestTopic(name="t", topic_id=None)],
            allow_auto_topic_creation=True,
            version=version,
        )
        request.with_header(5, "mé")
        expected = MetadataRequest(topics=(MetadataRequestTopic(name="t"),))
        assert received(request.encode(header=True, framed=True)) == ("mé", 5, expected)

    @pytest.mark.parametrize("version", range(14))
    def test_our_metadata_responses_are_decoded(self, version: int) -> None:
        foreign = load("kafka.protocol.metadata").MetadataResponse
        body = joined(write_response(METADATA, version))
        response = foreign.decode(body, version=version)
        known, unknown = response.topics
        assert (known.name, unknown.error_code) == ("t", 3)
        (partition,) = known.partitions
        assert list(partition.replica_nodes) == [1, 2]
        if version >= 10:
            assert known.topic_id.bytes == TOPIC_ID

    @pytest.mark.parametrize("version", range(5))
    def test_our_api_versions_responses_are_decoded_with_their_header(self, version: int) -> None:
        foreign = load("kafka.protocol.metadata").ApiVersionsResponse
        feature = Feature(name="transaction.version", lowest=1, highest=2, finalized=2)
        answer = api_versions_responses([ApiKey.PRODUCE, ApiKey.API_VERSIONS], [feature]).answer(
            version
        )
        api = read_request_header(memoryview(b"\0\x12\0\0\0\0\0\0\0\0")).api
        frame = joined(response_frame(api, version, 9, write_response(answer, version)))
        response = foreign.decode(frame[4:], version=version, header=True)
        assert response.header.correlation_id == 9
        assert [(each.api_key, each.max_version) for each in response.api_keys] == [
            (0, 13),
            (18, 4),
        ]

    @pytest.mark.parametrize("version", range(7))
    def test_find_coordinator_requests_are_decoded_and_answered(self, version: int) -> None:
        metadata = load("kafka.protocol.metadata")
        asked = {"key": "g"} if version < 4 else {"coordinator_keys": ["g"]}
        request = metadata.FindCoordinatorRequest(key_type=0, version=version, **asked)
        body = bytes(request.encode())
        assert read_bytes(FindCoordinatorRequest, version, body) == FindCoordinatorRequest(
            coordinator_keys=("g",)
        )
        found = FindCoordinatorResponse(
            coordinators=(Coordinator(key="g", node_id=3, host="h", port=9092),)
        )
        answer = joined(write_response(found, version))
        response = metadata.FindCoordinatorResponse.decode(answer, version=version)
        coordinator = response if version < 4 else response.coordinators[0]
        assert (coordinator.node_id, coordinator.host, coordinator.port) == (3, "h", 9092)


class TestAiokafka:
    """The client's structs list their fields in the order of the wire."""

    @pytest.mark.parametrize("version", range(3, 9))
    def test_produce_requests_are_decoded_and_answered(self, version: int) -> None:
        request = getattr(aiokafka_produce, f"ProduceRequest_v{version}")
        body = request("tx", -1, 1500, [("t", [(3, b"records")])]).encode()
        assert read_bytes(ProduceRequest, version, body) == ProduceRequest(
            transactional_id="tx",
            acks=-1,
            timeout_ms=1500,
            topic_data=(
                TopicProduceData(
                    name="t",
                    partition_data=(PartitionProduceData(index=3, records=memoryview(b"records")),),
                ),
            ),
        )
        partition = PartitionProduceResponse(index=3, base_offset=77, log_start_offset=5)
        answer = ProduceResponse(
            responses=(TopicProduceResponse(name="t", partition_responses=(partition,)),)
        )
        response = getattr(aiokafka_produce, f"ProduceResponse_v{version}")
        ((topic, ((index, error, offset, *_),)),) = response.decode(
            joined(write_response(answer, version))
        ).topics
        assert (topic, index, error, offset) == ("t", 3, 0, 77)

    def test_newest_fetch_request_is_decoded_and_answered(self) -> None:
        body = aiokafka_fetch.FetchRequest_v11(
            -1, 500, 1, 1 << 20, 1, 8, 9, [("t", [(3, 6, 77, -1, 4096)])], [], "rack"
        ).encode()
        partition = FetchPartition(
            partition=3, current_leader_epoch=6, fetch_offset=77, partition_max_bytes=4096
        )
        assert read_bytes(FetchRequest, 11, body) == FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1,
            session_id=8,
            session_epoch=9,
            topics=(FetchTopic(topic="t", partitions=(partition,)),),
            rack_id="rack",
        )
        data = PartitionData(partition_index=3, high_watermark=80, records=b"records" * 900)
        answer = FetchResponse(
            session_id=8, responses=(FetchableTopicResponse(topic="t", partitions=(data,)),)
        )
        response = aiokafka_fetch.FetchResponse_v11.decode(joined(write_response(answer, 11)))
        ((topic, (found,)),) = response.topics
        assert (topic, found[0], found[2], found[-1]) == ("t", 3, 80, b"records" * 900)

    @pytest.mark.parametrize("version", range(6))
    def test_our_metadata_responses_are_decoded(self, version: int) -> None:
        response = getattr(aiokafka_metadata, f"MetadataResponse_v{version}")
        decoded = response.decode(joined(write_response(METADATA, version)))
        assert [topic[1] for topic in decoded.topics] == ["t", "u"]
