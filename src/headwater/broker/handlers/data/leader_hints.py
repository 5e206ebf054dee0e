"""Add the current leader to NOT_LEADER_OR_FOLLOWER errors (KIP-951, EP-11).

A client that gets it needs no Metadata request, which saves a round trip after a leader change.

Note: the hint comes from this broker's metadata, which may be stale. Clients compare its leader
epoch with theirs and use only newer leaders.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, NodeId, TopicId
from headwater.metadata.cluster_image import NO_LEADER, PartitionRegistration
from headwater.protocol.messages import fetch, produce

PRODUCE_SINCE: Final = 10
FETCH_SINCE: Final = 16

E = TypeVar("E", produce.NodeEndpoint, fetch.NodeEndpoint)

_NOT_HERE: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_FENCED: Final = ErrorCode.FENCED_LEADER_EPOCH


def hint_producer(
    broker: Broker, call: Call, response: produce.ProduceResponse
) -> produce.ProduceResponse:
    """Add leaders to a Produce response."""
    leaders: dict[NodeId, None] = {}

    def hinted(
        topic: produce.TopicProduceResponse, answer: produce.PartitionProduceResponse
    ) -> produce.PartitionProduceResponse:
        if answer.error_code is not _NOT_HERE:
            return answer
        state = _state_of(broker, topic.name, topic.topic_id, answer.index)
        if state is None:
            return answer
        leaders[state.leader] = None
        leader = produce.LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
        return replace(answer, current_leader=leader)

    responses = tuple(
        replace(
            topic,
            partition_responses=tuple(hinted(topic, each) for each in topic.partition_responses),
        )
        for topic in response.responses
    )
    endpoints = _endpoints(broker, call, leaders, produce.NodeEndpoint)
    return replace(response, responses=responses, node_endpoints=endpoints)


def hint_consumer(broker: Broker, call: Call, response: fetch.FetchResponse) -> fetch.FetchResponse:
    """Add leaders to a Fetch response."""
    leaders: dict[NodeId, None] = {}

    def hinted(
        topic: fetch.FetchableTopicResponse, data: fetch.PartitionData
    ) -> fetch.PartitionData:
        if data.error_code not in (_NOT_HERE, _FENCED):
            return data
        state = _state_of(broker, topic.topic, topic.topic_id, data.partition_index)
        if state is None:
            return data
        leaders[state.leader] = None
        leader = fetch.LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
        return replace(data, current_leader=leader)

    responses = tuple(
        replace(topic, partitions=tuple(hinted(topic, each) for each in topic.partitions))
        for topic in response.responses
    )
    endpoints = _endpoints(broker, call, leaders, fetch.NodeEndpoint)
    return replace(response, responses=responses, node_endpoints=endpoints)


def _state_of(
    broker: Broker, name: str, topic_id: TopicId, number: int
) -> PartitionRegistration | None:
    """Return the partition's registration, if it has a leader."""
    image = broker.image
    if topic_id != NO_TOPIC_ID:
        name = image.names_by_id.get(topic_id, "")
    state = image.partition(name, number)
    return None if state is None or state.leader == NO_LEADER else state


def _endpoints(
    broker: Broker, call: Call, leaders: dict[NodeId, None], make: Callable[..., E]
) -> tuple[E, ...]:
    """Return the leaders' endpoints on the listener of the request."""
    found = []
    for node_id in leaders:
        leader = broker.image.brokers.get(node_id)
        endpoint = None if leader is None else leader.endpoint(call.listener)
        if leader is not None and endpoint is not None:
            found.append(
                make(node_id=node_id, host=endpoint.host, port=endpoint.port, rack=leader.rack)
            )
    return tuple(found)
