"""Metadata changes as JSON, as `standalone_store` writes them.

    ["TopicCreated", "orders", "k9uDY1VbSzqWlYB5hMxH3Q", [[[0], [0], 0, 0, 0]]]

A change is a list that starts with its type; a partition is a list too, because there are many.
JSON, because its parser is compiled and the file stays readable. An unknown type was written by a
newer version and is rejected, not skipped. Some changes are never stored (see `changes`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import CorruptFile, ProtocolError
from headwater.common.ids import NodeId, TopicId
from headwater.metadata.acl_json import acls_fields, read_acls
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    ControllerRegistered,
    FeatureFinalized,
    LogDirectoryFailed,
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    PartitionsAdded,
    ProducerIdsAllocated,
    ReplicasOffline,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
    TopicKnown,
)
from headwater.metadata.cluster_image import (
    BrokerEndpoint,
    BrokerRegistration,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
)

Json = list[Any]


def change_to_json(change: MetadataChange) -> Json:
    return [type(change).__name__, *_fields(change)]


def change_from_json(written: object) -> MetadataChange:
    """Read one change. Raises `CorruptFile`."""
    match written:
        case [str(kind), *values]:
            reader = _READERS.get(kind)
            if reader is None:
                raise CorruptFile(f"unknown change type {kind}, written by a newer version")
            try:
                return reader(*values)
            except (TypeError, ValueError, AttributeError, ProtocolError) as error:
                raise CorruptFile(f"invalid {kind}: {error}") from error
    raise CorruptFile("a change must be a list that starts with its type")


def _fields(change: MetadataChange) -> Json:
    match change:
        case TopicCreated(topic):
            return [topic.name, str(topic.topic_id), _partitions_to_json(topic.partitions)]
        case TopicDeleted(name) | TopicDeletionBegun(name):
            return [name]
        case PartitionsAdded(name, partitions):
            return [name, _partitions_to_json(partitions)]
        case PartitionChanged(name, number, partition):
            return [name, number, *_partitions_to_json([partition])]
        case ConfigsReplaced(resource, values):
            return [int(resource.resource_type), resource.name, dict(values)]
        case BrokerRegistered(broker):
            endpoints = [
                [each.listener, each.host, each.port, each.security_protocol]
                for each in broker.endpoints
            ]
            return [broker.node_id, broker.epoch, broker.rack, endpoints]
        case BrokerGone(node_id) | ControllerElected(node_id):
            return [node_id]
        case ControllerGone():
            return []
        case BrokerAdmitted(node_id, epoch):
            return [node_id, epoch]
        case FeatureFinalized(name, level):
            return [name, level]
        case ProducerIdsAllocated(next_producer_id):
            return [next_producer_id]
        case AclsReplaced():
            return acls_fields(change)
        case (
            TopicKnown()
            | PartitionDropped()
            | BrokerStopping()
            | ReplicasOffline()
            | LogDirectoryFailed()
            | ControllerRegistered()
        ):
            raise AssertionError(f"{change} is never stored")
        case _:
            assert_never(change)


def _partitions_to_json(partitions: Sequence[PartitionRegistration]) -> Json:
    """Adding and removing replicas are only written during a reassignment."""
    return [
        [each.replicas, each.isr, each.leader, each.leader_epoch, each.partition_epoch]
        if not each.adding and not each.removing
        else [
            each.replicas,
            each.isr,
            each.leader,
            each.leader_epoch,
            each.partition_epoch,
            each.adding,
            each.removing,
        ]
        for each in partitions
    ]


def _partition(
    replicas: list[int],
    isr: list[int],
    leader: int,
    leader_epoch: int,
    partition_epoch: int,
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=_nodes(replicas),
        isr=_nodes(isr),
        leader=NodeId(int(leader)),
        leader_epoch=int(leader_epoch),
        partition_epoch=int(partition_epoch),
        adding=_nodes(adding),
        removing=_nodes(removing),
    )


def _nodes(ids: Sequence[int]) -> tuple[NodeId, ...]:
    return tuple(NodeId(int(node_id)) for node_id in ids)


def _partitions(written: list[Json]) -> tuple[PartitionRegistration, ...]:
    return tuple(_partition(*each) for each in written)


def _broker(node_id: int, epoch: int, rack: str | None, endpoints: list[Json]) -> MetadataChange:
    return BrokerRegistered(
        BrokerRegistration(
            node_id=NodeId(int(node_id)),
            epoch=int(epoch),
            rack=rack,
            endpoints=tuple(
                BrokerEndpoint(
                    listener=listener, host=host, port=int(port), security_protocol=protocol
                )
                for listener, host, port, protocol in endpoints
            ),
        )
    )


def _topic(name: str, topic_id: str, partitions: list[Json]) -> MetadataChange:
    return TopicCreated(
        TopicImage(name=name, topic_id=TopicId.parse(topic_id), partitions=_partitions(partitions))
    )


def _configs(resource_type: int, name: str, values: dict[str, str]) -> MetadataChange:
    return ConfigsReplaced(ConfigResource(ResourceType(resource_type), name), dict(values))


_READERS: Final[dict[str, Callable[..., MetadataChange]]] = {
    "TopicCreated": _topic,
    "TopicDeletionBegun": TopicDeletionBegun,
    "TopicDeleted": TopicDeleted,
    "PartitionsAdded": lambda name, added: PartitionsAdded(name, _partitions(added)),
    "PartitionChanged": lambda name, number, written: PartitionChanged(
        name, int(number), _partition(*written)
    ),
    "ConfigsReplaced": _configs,
    "BrokerRegistered": _broker,
    "BrokerGone": lambda node_id: BrokerGone(NodeId(int(node_id))),
    "ControllerElected": lambda node_id: ControllerElected(NodeId(int(node_id))),
    "ControllerGone": ControllerGone,
    "BrokerAdmitted": lambda node_id, epoch: BrokerAdmitted(NodeId(int(node_id)), int(epoch)),
    "FeatureFinalized": lambda name, level: FeatureFinalized(name, int(level)),
    "ProducerIdsAllocated": lambda next_id: ProducerIdsAllocated(int(next_id)),
    "AclsReplaced": read_acls,
}
