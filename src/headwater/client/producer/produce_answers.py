"""What a Produce answer says of each batch. Topics are named by id since version 13."""

from typing import NamedTuple

from headwater.client.addresses import Address
from headwater.client.cluster_client import ClusterClient
from headwater.client.cluster_metadata import NO_NODE, BrokerNode
from headwater.client.error_words import meaning
from headwater.model.errors import ErrorCode
from headwater.wire.messages.produce import PartitionProduceResponse, ProduceResponse

Place = tuple[str | bytes, int]


class PartitionAnswer(NamedTuple):
    """The fate of one batch."""

    code: ErrorCode
    message: str | None
    base_offset: int
    append_time_ms: int


def answers(response: ProduceResponse) -> dict[Place, PartitionAnswer]:
    """By the topic's name or, in versions without names, its id, and by partition."""
    return {
        (topic.name or topic.topic_id, each.index): PartitionAnswer(
            each.error_code, _message(each), each.base_offset, each.log_append_time_ms
        )
        for topic in response.responses
        for each in topic.partition_responses
    }


def learn_leaders(cluster: ClusterClient, response: ProduceResponse) -> set[tuple[str, int]]:
    """The partitions whose new leader the answer names, which the metadata then knows (KIP-951)."""
    moved: set[tuple[str, int]] = set()
    nodes = {
        each.node_id: BrokerNode(
            node_id=each.node_id, address=Address(each.host, each.port), rack=each.rack
        )
        for each in response.node_endpoints
    }
    for topic in response.responses:
        for each in topic.partition_responses:
            leader = each.current_leader
            if leader.leader_id == NO_NODE or each.error_code is ErrorCode.NONE:
                continue
            name = topic.name or cluster.metadata.topic_named(topic.topic_id)
            if name and cluster.learn_leader(
                name,
                each.index,
                leader_id=leader.leader_id,
                leader_epoch=leader.leader_epoch,
                node=nodes.get(leader.leader_id),
            ):
                moved.add((name, each.index))
    return moved


def _message(answer: PartitionProduceResponse) -> str | None:
    """Why, in the broker's words, and which records it was about."""
    named = [
        f"record {each.batch_index}: {each.batch_index_error_message}"
        if each.batch_index_error_message
        else f"record {each.batch_index}"
        for each in answer.record_errors
    ]
    words = [answer.error_message or meaning(answer.error_code), *named]
    return "; ".join(words)
