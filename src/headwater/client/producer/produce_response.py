"""Read Produce responses. Topics have ids instead of names since version 13."""

from typing import NamedTuple

from headwater.client.error_messages import meaning
from headwater.client.network.cluster_client import ClusterClient
from headwater.client.network.leader_hints import LeaderHint, learn_leaders
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.produce import PartitionProduceResponse, ProduceResponse

Place = tuple[str | bytes, int]


class PartitionAnswer(NamedTuple):
    """The result of one batch."""

    code: ErrorCode
    message: str | None
    base_offset: int
    append_time_ms: int


def answers(response: ProduceResponse) -> dict[Place, PartitionAnswer]:
    """Results by topic name (or id, in versions without names) and partition."""
    return {
        (topic.name or topic.topic_id, each.index): PartitionAnswer(
            each.error_code, _message(each), each.base_offset, each.log_append_time_ms
        )
        for topic in response.responses
        for each in topic.partition_responses
    }


def moved_partitions(cluster: ClusterClient, response: ProduceResponse) -> set[TopicPartition]:
    """Apply the new leaders in a response to the metadata; return their partitions."""
    hints = [
        LeaderHint(
            TopicPartition(name, each.index),
            each.current_leader.leader_id,
            each.current_leader.leader_epoch,
        )
        for topic in response.responses
        for each in topic.partition_responses
        if each.error_code is not ErrorCode.NONE
        and (name := topic.name or cluster.metadata.topic_named(topic.topic_id))
    ]
    return learn_leaders(cluster, hints, response.node_endpoints)


def _message(answer: PartitionProduceResponse) -> str | None:
    """The broker's message, with the indexes of rejected records."""
    records = [
        f"record {each.batch_index}: {each.batch_index_error_message}"
        if each.batch_index_error_message
        else f"record {each.batch_index}"
        for each in answer.record_errors
    ]
    return "; ".join([answer.error_message or meaning(answer.error_code), *records])
