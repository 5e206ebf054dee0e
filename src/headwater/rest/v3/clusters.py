"""Clusters, brokers and reassignments of API v3."""

from typing import Any

from headwater.client.admin.descriptions import ClusterDescription, Reassignment
from headwater.client.network.cluster_metadata import NO_NODE, BrokerNode
from headwater.common.ids import TopicPartition
from headwater.rest.rest_errors import RestProxyError
from headwater.rest.rest_request import RestRequest
from headwater.rest.v3.resources import ClusterScope, Json
from headwater.rest.v3.topics import all_topics, found_partition, found_topic, replicas_of


async def list_clusters(request: RestRequest) -> Any:
    """The one cluster of this server."""
    cluster_id = await request.clients.cluster_id()
    scope = ClusterScope(request, cluster_id)
    described = await scope.admin.describe_cluster()
    return {
        "kind": "KafkaClusterList",
        "metadata": {"self": request.url("v3", "clusters"), "next": None},
        "data": [_cluster(scope, described)],
    }


async def get_cluster(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    return _cluster(scope, await scope.admin.describe_cluster())


async def list_brokers(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    described = await scope.admin.describe_cluster()
    return scope.listing(
        "KafkaBrokerList", ["brokers"], [_broker(scope, each) for each in described.brokers]
    )


async def get_broker(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    return _broker(scope, await found_broker(scope, request.number(1)))


async def list_broker_replicas(request: RestRequest) -> Any:
    """All replicas on one broker."""
    scope = await ClusterScope.of(request)
    broker = await found_broker(scope, request.number(1))
    data = [
        replica
        for topic in await all_topics(scope)
        for partition in topic.partitions
        for replica in replicas_of(scope, topic.name, partition)
        if replica["broker_id"] == broker.node_id
    ]
    return scope.listing(
        "KafkaReplicaList", ["brokers", broker.node_id, "partition-replicas"], data
    )


async def list_reassignments(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    found = await scope.admin.list_partition_reassignments()
    return _reassignments(scope, ["topics", "-", "partitions", "-", "reassignment"], found)


async def list_topic_reassignments(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    topic = await found_topic(scope, request.parts[1])
    partitions = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    found = await scope.admin.list_partition_reassignments(partitions)
    return _reassignments(scope, ["topics", topic.name, "partitions", "-", "reassignment"], found)


async def get_reassignment(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    topic, partition = await found_partition(scope, request.parts[1], request.number(2))
    place = TopicPartition(topic.name, partition.partition)
    found = await scope.admin.list_partition_reassignments([place])
    if place not in found:
        raise RestProxyError(404, f"Partition {place} is not being reassigned.")
    return _reassignment(scope, place, found[place])


async def found_broker(scope: ClusterScope, broker_id: int) -> BrokerNode:
    """A broker; 404 if there is none with this id."""
    for each in (await scope.admin.describe_cluster()).brokers:
        if each.node_id == broker_id:
            return each
    raise RestProxyError(404, f"Broker {broker_id} cannot be found.")


def _cluster(scope: ClusterScope, described: ClusterDescription) -> Json:
    links = {
        "acls": scope.related("acls"),
        "brokers": scope.related("brokers"),
        "broker_configs": scope.related("broker-configs"),
        "consumer_groups": scope.related("consumer-groups"),
        "topics": scope.related("topics"),
        "partition_reassignments": scope.related("topics", "-", "partitions", "-", "reassignment"),
    }
    if described.controller_id != NO_NODE:
        links["controller"] = scope.related("brokers", described.controller_id)
    return scope.resource("KafkaCluster", [], "", **links)


def _broker(scope: ClusterScope, broker: BrokerNode) -> Json:
    path = ["brokers", broker.node_id]
    return scope.resource(
        "KafkaBroker",
        path,
        f"broker={broker.node_id}",
        broker_id=broker.node_id,
        host=broker.address.host,
        port=broker.address.port,
        rack=broker.rack,
        configs=scope.related(*path, "configs"),
        partition_replicas=scope.related(*path, "partition-replicas"),
    )


def _reassignments(
    scope: ClusterScope, path: list[object], found: dict[TopicPartition, Reassignment]
) -> Json:
    data = [_reassignment(scope, place, each) for place, each in sorted(found.items())]
    return scope.listing("KafkaReassignmentList", path, data)


def _reassignment(scope: ClusterScope, place: TopicPartition, found: Reassignment) -> Json:
    path = ["topics", place.topic, "partitions", place.partition]
    return scope.resource(
        "KafkaReassignment",
        [*path, "reassignment"],
        f"topic={place.topic}/partition={place.partition}/reassignment",
        topic_name=place.topic,
        partition_id=place.partition,
        adding_replicas=list(found.adding_replicas),
        removing_replicas=list(found.removing_replicas),
        replicas=scope.related(*path, "replicas"),
    )
