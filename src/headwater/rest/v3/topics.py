"""Topics, partitions and replicas of API v3."""

from typing import Any

from headwater.client.admin.descriptions import NewTopic, TopicDescription
from headwater.client.consumer.auto_offset_reset import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from headwater.client.errors import KafkaError, SomeFailed, UnknownTopicOrPartition
from headwater.client.network.cluster_metadata import NO_NODE, PartitionView
from headwater.common.ids import TopicPartition
from headwater.rest.body_fields import BodyFields
from headwater.rest.rest_errors import RestProxyError, bad_request, partition_not_found
from headwater.rest.rest_request import NO_CONTENT, RestAnswer, RestRequest, read_number
from headwater.rest.v2.topics import is_missing_topic
from headwater.rest.v3.resources import ClusterScope, Json

_REPLICATION_FACTOR_MAX = 2**15 - 1


async def list_topics(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    data = [_topic(scope, each) for each in await all_topics(scope)]
    return scope.listing("KafkaTopicList", ["topics"], data)


async def get_topic(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    return _topic(scope, await found_topic(scope, request.parts[1]))


async def create_topic(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    body = request.fields(status=400)
    topic = NewTopic(
        name=body.text("topic_name"),
        partitions=_or_default(body.optional_number("partitions_count", least=-1)),
        replication_factor=_or_default(
            body.optional_number("replication_factor", least=-1, most=_REPLICATION_FACTOR_MAX)
        ),
        assignments=_assignments(body),
        configs={
            each.text("name"): value
            for each in body.optional_objects("configs")
            if (value := each.optional_text("value")) is not None
        },
    )
    is_trial = body.flag("validate_only")
    await scope.admin.create_topics([topic], validate_only=is_trial)
    if is_trial:
        return RestAnswer(body=_planned(scope, topic))
    created = _topic(scope, await found_topic(scope, topic.name))
    return RestAnswer(
        status=201, body=created, headers={"Location": str(created["metadata"]["self"])}
    )


async def update_topic(request: RestRequest) -> Any:
    """Add partitions."""
    scope = await ClusterScope.of(request)
    name = request.parts[1]
    count = request.fields(status=400).number("partitions_count", least=1)
    await found_topic(scope, name)
    await scope.admin.create_partitions({name: count})
    return _topic(scope, await found_topic(scope, name))


async def delete_topic(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    name = request.parts[1]
    await found_topic(scope, name)
    await scope.admin.delete_topics([name])
    return NO_CONTENT


async def list_partitions(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    topic = await found_topic(scope, request.parts[1])
    data = [_partition(scope, topic.name, each) for each in topic.partitions]
    return scope.listing("KafkaPartitionList", ["topics", topic.name, "partitions"], data)


async def get_partition(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    topic, partition = await found_partition(scope, request.parts[1], request.number(2))
    return _partition(scope, topic.name, partition)


async def get_partition_offsets(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    topic, partition = await found_partition(scope, request.parts[1], request.number(2))
    place = TopicPartition(topic.name, partition.partition)
    first = await scope.admin.list_offsets({place: EARLIEST_TIMESTAMP})
    end = await scope.admin.list_offsets({place: LATEST_TIMESTAMP})
    return scope.resource(
        "KafkaPartitionWithOffsets",
        ["topics", topic.name, "partitions", partition.partition, "offset"],
        f"topic={topic.name}/partition={partition.partition}/offset",
        topic_name=topic.name,
        partition_id=partition.partition,
        earliest_offset=first[place].offset,
        latest_offset=end[place].offset,
    )


async def list_replicas(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    topic, partition = await found_partition(scope, request.parts[1], request.number(2))
    path = ["topics", topic.name, "partitions", partition.partition, "replicas"]
    return scope.listing("KafkaReplicaList", path, replicas_of(scope, topic.name, partition))


async def get_replica(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    topic, partition = await found_partition(scope, request.parts[1], request.number(2))
    broker_id = request.number(3)
    for each in replicas_of(scope, topic.name, partition):
        if each["broker_id"] == broker_id:
            return each
    raise RestProxyError(404, f"Broker {broker_id} has no replica of this partition.")


async def all_topics(scope: ClusterScope) -> list[TopicDescription]:
    """All topics with their partitions, ordered by name."""
    names = await scope.admin.list_topics(include_internal=True)
    try:
        found = await scope.admin.describe_topics(names)
    except SomeFailed as error:
        # A topic may have been deleted in between.
        for each in error.errors.values():
            if not isinstance(each, UnknownTopicOrPartition):
                raise each from error
        found = dict(error.results)
    return [found[name] for name in sorted(found)]


async def found_topic(scope: ClusterScope, name: str) -> TopicDescription:
    """A topic; 404 if it does not exist."""
    try:
        return (await scope.admin.describe_topics([name]))[name]
    except KafkaError as error:
        if is_missing_topic(error):
            message = "This server does not host this topic-partition."
            raise RestProxyError(404, message, 40403) from error
        raise


async def found_partition(
    scope: ClusterScope, name: str, number: int
) -> tuple[TopicDescription, PartitionView]:
    """A topic and one of its partitions; 404 if it does not exist."""
    topic = await found_topic(scope, name)
    for each in topic.partitions:
        if each.partition == number:
            return topic, each
    raise partition_not_found()


def replicas_of(scope: ClusterScope, topic: str, partition: PartitionView) -> list[Json]:
    number = partition.partition
    return [
        scope.resource(
            "KafkaReplica",
            ["topics", topic, "partitions", number, "replicas", each],
            f"topic={topic}/partition={number}/replica={each}",
            topic_name=topic,
            partition_id=number,
            broker_id=each,
            is_leader=each == partition.leader_id,
            is_in_sync=each in partition.isr,
            broker=scope.related("brokers", each),
        )
        for each in partition.replicas
    ]


def _topic(scope: ClusterScope, topic: TopicDescription) -> Json:
    factors = [len(each.replicas) for each in topic.partitions]
    return _topic_resource(
        scope,
        topic.name,
        is_internal=topic.is_internal,
        replication_factor=factors[0] if factors else 0,
        partitions_count=len(topic.partitions),
    )


def _planned(scope: ClusterScope, topic: NewTopic) -> Json:
    """A topic that was validated but not created."""
    replicas = next(iter(topic.assignments.values()), ())
    return _topic_resource(
        scope,
        topic.name,
        is_internal=False,
        replication_factor=len(replicas) if replicas else max(topic.replication_factor, 0),
        partitions_count=len(topic.assignments) or max(topic.partitions, 0),
    )


def _topic_resource(scope: ClusterScope, name: str, **fields: Any) -> Json:
    path = ["topics", name]
    return scope.resource(
        "KafkaTopic",
        path,
        f"topic={name}",
        topic_name=name,
        **fields,
        partitions=scope.related(*path, "partitions"),
        configs=scope.related(*path, "configs"),
        partition_reassignments=scope.related(*path, "partitions", "-", "reassignment"),
        authorized_operations=[],
    )


def _partition(scope: ClusterScope, topic: str, partition: PartitionView) -> Json:
    path = ["topics", topic, "partitions", partition.partition]
    links = {
        "replicas": scope.related(*path, "replicas"),
        "reassignment": scope.related(*path, "reassignment"),
    }
    if partition.leader_id != NO_NODE:
        links["leader"] = scope.related(*path, "replicas", partition.leader_id)
    return scope.resource(
        "KafkaPartition",
        path,
        f"topic={topic}/partition={partition.partition}",
        topic_name=topic,
        partition_id=partition.partition,
        **links,
    )


def _or_default(number: int | None) -> int:
    return -1 if number is None else number


def _assignments(body: BodyFields) -> dict[int, list[int]]:
    """Broker ids by partition."""
    given = body.optional_object("replicas_assignments")
    if given is None:
        return {}
    found = {}
    for name in given.names():
        number = read_number(name)
        brokers = given.items(name)
        if number is None or not all(_is_broker_id(each) for each in brokers):
            raise bad_request("replicas_assignments must have broker ids by partition")
        found[number] = brokers
    return found


def _is_broker_id(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 2**31
