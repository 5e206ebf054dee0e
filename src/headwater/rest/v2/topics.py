"""Topics, partitions and brokers of API v2."""

from typing import Any

from headwater.client.admin.descriptions import ConfigResource, TopicDescription
from headwater.client.consumer.auto_offset_reset import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from headwater.client.errors import (
    InvalidArgument,
    InvalidTopic,
    KafkaError,
    SomeFailed,
    UnknownTopicOrPartition,
)
from headwater.client.network.cluster_metadata import PartitionView
from headwater.common.ids import TopicPartition
from headwater.rest.rest_errors import partition_not_found, topic_not_found
from headwater.rest.rest_request import RestRequest


async def root(_request: RestRequest) -> Any:
    return {}


async def list_topics(request: RestRequest) -> Any:
    return await request.clients.admin.list_topics(include_internal=True)


async def get_topic(request: RestRequest) -> Any:
    name = request.parts[0]
    topic = await described(request, name)
    resource = ConfigResource.topic(name)
    configs = (await request.clients.admin.describe_configs([resource]))[resource]
    return {
        "name": name,
        "configs": {entry.name: entry.value for entry in configs.values()},
        "partitions": [_partition(each) for each in topic.partitions],
    }


async def list_partitions(request: RestRequest) -> Any:
    topic = await described(request, request.parts[0])
    return [_partition(each) for each in topic.partitions]


async def get_partition(request: RestRequest) -> Any:
    return _partition(await _found_partition(request))


async def get_offsets(request: RestRequest) -> Any:
    """The first offset and the end offset of a partition."""
    found = await _found_partition(request)
    place = TopicPartition(request.parts[0], found.partition)
    admin = request.clients.admin
    first = await admin.list_offsets({place: EARLIEST_TIMESTAMP})
    end = await admin.list_offsets({place: LATEST_TIMESTAMP})
    return {"beginning_offset": first[place].offset, "end_offset": end[place].offset}


async def list_brokers(request: RestRequest) -> Any:
    cluster = await request.clients.admin.describe_cluster()
    return {"brokers": [each.node_id for each in cluster.brokers]}


async def described(request: RestRequest, name: str) -> TopicDescription:
    """A topic; `RestProxyError` 40401 if it does not exist."""
    try:
        return (await request.clients.admin.describe_topics([name]))[name]
    except KafkaError as error:
        if is_missing_topic(error):
            raise topic_not_found() from error
        raise


def is_missing_topic(error: KafkaError) -> bool:
    """Whether an error means that there is no such topic, or can be none."""
    cause = next(iter(error.errors.values())) if isinstance(error, SomeFailed) else error
    return isinstance(cause, UnknownTopicOrPartition | InvalidTopic | InvalidArgument)


async def _found_partition(request: RestRequest) -> PartitionView:
    topic = await described(request, request.parts[0])
    number = request.number(1)
    for each in topic.partitions:
        if each.partition == number:
            return each
    raise partition_not_found()


def _partition(view: PartitionView) -> dict[str, Any]:
    return {
        "partition": view.partition,
        "leader": view.leader_id,
        "replicas": [
            {"broker": each, "leader": each == view.leader_id, "in_sync": each in view.isr}
            for each in view.replicas
        ],
    }
