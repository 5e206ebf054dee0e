"""Requests with too many elements are rejected while they are decoded."""

import struct
from dataclasses import replace

import pytest

from headwater.broker.requests.dispatch import Dispatch
from headwater.broker.requests.request_limits import UNTRUSTED_ELEMENTS_MAX
from headwater.common.exceptions import ProtocolError
from headwater.network.request_service import ResponseSlot
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import encode, read
from headwater.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headwater.protocol.messages.fetch import FetchRequest, FetchTopic
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.messages.produce import ProduceRequest, TopicProduceData
from headwater.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from headwater.protocol.primitives import uvarint
from headwater.security.authorization.authorizer import Operation
from tests.simulation.labs.broker_lab import LISTENER, BrokerLab, Peer, Refusing

ELEMENTS_MAX = 10_000
PRODUCE_ELEMENTS_MAX = 5_000
MANY = "headwater.request.elements.max"


def test_request_above_the_limit_is_rejected_and_at_the_limit_answered() -> None:
    lab = BrokerLab()
    names = tuple(f"g{number}" for number in range(ELEMENTS_MAX))
    answer = lab.ask(DescribeGroupsRequest(groups=names), DescribeGroupsResponse)
    assert len(answer.groups) == ELEMENTS_MAX
    with pytest.raises(ProtocolError, match="too many elements"):
        lab.send(DescribeGroupsRequest(groups=(*names, "one-more")))


def test_length_field_alone_rejects_a_request() -> None:
    """The elements after it are never read: here they are not even groups."""
    count = ELEMENTS_MAX + 1
    head = struct.pack(">hhih", ApiKey.DESCRIBE_GROUPS, 0, 1, 0)
    frame = head + struct.pack(">i", count) + b"\xff" * (2 * count)
    with pytest.raises(ProtocolError, match="too many elements"):
        BrokerLab().dispatch.serve(ResponseSlot(Peer()), memoryview(bytearray(frame)))


def test_elements_of_nested_arrays_count_together() -> None:
    lab = BrokerLab({MANY: "5000"})
    partitions = (ListOffsetsPartition(partition_index=0),) * 9
    topics = tuple(ListOffsetsTopic(name=f"t{n}", partitions=partitions) for n in range(500))
    assert len(lab.ask(_offsets(topics), ListOffsetsResponse).topics) == 500
    with pytest.raises(ProtocolError, match="too many elements"):
        lab.send(_offsets((*topics, ListOffsetsTopic(name="one-more"))))


def test_unknown_tagged_fields_count_as_elements() -> None:
    body = bytes(encode(_offsets(()), 9).body)
    assert body.endswith(b"\0")
    fields = b"".join(uvarint(100 + tag) + b"\0" for tag in range(50))
    tagged = memoryview(body[:-1] + uvarint(50) + fields)
    assert read(ListOffsetsRequest, 9, tagged, 50) == _offsets(())
    with pytest.raises(ProtocolError, match="too many elements"):
        read(ListOffsetsRequest, 9, tagged, 49)


def test_only_authorized_brokers_may_send_many_elements() -> None:
    marker = WritableTxnMarker(producer_id=1)
    markers = tuple(replace(marker, producer_id=n) for n in range(UNTRUSTED_ELEMENTS_MAX + 1))
    request = WriteTxnMarkersRequest(markers=markers)
    assert BrokerLab().send(request).is_answered
    with pytest.raises(ProtocolError, match="too many elements"):
        BrokerLab(authorizer=Refusing(Operation.CLUSTER_ACTION)).send(request)


def test_request_answered_in_one_piece_has_a_lower_limit() -> None:
    lab = BrokerLab()
    topics = tuple(FetchTopic(topic=f"t{n}") for n in range(ELEMENTS_MAX + 1))
    lab.send(FetchRequest(topics=topics[1:]), 12)
    with pytest.raises(ProtocolError, match="too many elements"):
        lab.send(FetchRequest(topics=topics), 12)


def test_produce_has_the_lowest_limit() -> None:
    lab = BrokerLab()
    topics = tuple(TopicProduceData(name=f"t{n}") for n in range(PRODUCE_ELEMENTS_MAX + 1))
    assert lab.send(ProduceRequest(acks=1, topic_data=topics[1:]), 9).is_answered
    with pytest.raises(ProtocolError, match="too many elements"):
        lab.send(ProduceRequest(acks=1, topic_data=topics), 9)


def test_authorized_follower_may_fetch_any_number_of_partitions() -> None:
    lab = BrokerLab()
    topics = tuple(FetchTopic(topic=f"t{n}") for n in range(ELEMENTS_MAX + 1))
    lab.dispatch = Dispatch(lab.broker, brokers_listener=LISTENER)
    assert lab.send(FetchRequest(topics=topics), 12).is_answered
    strict = BrokerLab(authorizer=Refusing(Operation.CLUSTER_ACTION))
    strict.dispatch = Dispatch(strict.broker, brokers_listener=LISTENER)
    with pytest.raises(ProtocolError, match="too many elements"):
        strict.send(FetchRequest(topics=topics), 12)


def _offsets(topics: tuple[ListOffsetsTopic, ...]) -> ListOffsetsRequest:
    return ListOffsetsRequest(replica_id=-1, topics=topics)
