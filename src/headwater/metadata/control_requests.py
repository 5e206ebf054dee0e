"""Build LeaderAndIsr, UpdateMetadata and StopReplica requests from changes.

`control_request_batch` determines which brokers a change concerns; the other functions build the
requests.

Note: a batch contains partition names, not their states. A request takes the states when it is
built, since a broker that missed three changes of a partition needs only the last one.

UpdateMetadata carries the state of a partition, including its leader, to all brokers, because a
broker has one image. LeaderAndIsr follows for brokers whose role in a partition changed: it says
which replicas are added and removed, and its response reports offline replicas.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.common.ids import NodeId, TopicPartition
from headwater.common.security_protocol import SecurityProtocol
from headwater.metadata.changes import (
    BrokerGone,
    BrokerRegistered,
    ControllerElected,
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    ReplicasOffline,
    TopicCreated,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import (
    BrokerRegistration,
    ClusterImage,
    PartitionRegistration,
    TopicImage,
)
from headwater.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrTopicState,
)
from headwater.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaTopicState,
)
from headwater.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)

LEADER_DURING_DELETE: Final = NodeId(-2)
"""Leader in UpdateMetadata of a topic that is being deleted, as in Kafka."""

EPOCH_DURING_DELETE: Final = -2
"""Leader epoch in StopReplica that skips the epoch check, as in Kafka."""

INCREMENTAL: Final = 1
FULL: Final = 2
"""A full request: partitions that it does not name do not exist.

These types are from KIP-866; before, the field was 0.
"""

Offline = Callable[[str, int, PartitionRegistration], tuple[NodeId, ...]]

SECURITY_PROTOCOLS: Final = tuple(SecurityProtocol)


@dataclass(frozen=True, slots=True)
class ReplicaStop:
    """A StopReplica entry."""

    leader_epoch: int
    is_deleted: bool


@dataclass(slots=True, kw_only=True)
class ControlRequestBatch:
    """Which brokers a change concerns. Shared between brokers; never modified."""

    # Whether live brokers or the controller changed.
    has_brokers: bool = False
    # For all brokers.
    metadata: dict[TopicPartition, None] = field(default_factory=dict)
    deleted: dict[str, TopicImage] = field(default_factory=dict)
    # By broker. The value is True if the replica has never been on that broker.
    roles: dict[NodeId, dict[TopicPartition, bool]] = field(default_factory=dict)
    stops: dict[NodeId, dict[TopicPartition, ReplicaStop]] = field(default_factory=dict)

    def _role(self, node_id: NodeId, name: TopicPartition, *, is_new: bool) -> None:
        self.roles.setdefault(node_id, {})[name] = is_new

    def _stop(self, node_id: NodeId, name: TopicPartition, stop: ReplicaStop) -> None:
        self.roles.get(node_id, {}).pop(name, None)
        self.stops.setdefault(node_id, {})[name] = stop

    def add_created(
        self, topic: str, first: int, partitions: Sequence[PartitionRegistration]
    ) -> None:
        for number, partition in enumerate(partitions, first):
            name = TopicPartition(topic, number)
            self.metadata[name] = None
            for node_id in partition.replicas:
                self._role(node_id, name, is_new=True)

    def add_changed(
        self, name: TopicPartition, before: PartitionRegistration, after: PartitionRegistration
    ) -> None:
        self.metadata[name] = None
        if _roles(before) != _roles(after):
            for node_id in after.replicas:
                self._role(node_id, name, is_new=node_id not in before.replicas)
        for node_id in before.replicas:
            if node_id not in after.replicas:
                self._stop(node_id, name, ReplicaStop(after.leader_epoch, is_deleted=True))


def control_request_batch(
    before: ClusterImage, after: ClusterImage, changes: Iterable[MetadataChange]
) -> ControlRequestBatch:
    """Return what to send to brokers for the changes between two images."""
    batch = ControlRequestBatch()
    counts: dict[str, int] = {}
    for change in changes:
        match change:
            case TopicCreated(topic):
                batch.add_created(topic.name, 0, topic.partitions)
            case PartitionsAdded(topic_name, added):
                # Partitions of a topic that the same write creates are already included.
                first = counts.get(topic_name, len(before.topics[topic_name].partitions))
                counts[topic_name] = first + len(added)
                batch.add_created(topic_name, first, added)
            case PartitionChanged(topic_name, number, partition):
                known = before.partition(topic_name, number)
                # Brokers do not know a partition that the same write created.
                if known is not None:
                    batch.add_changed(TopicPartition(topic_name, number), known, partition)
            case TopicDeletionBegun(topic_name):
                # `topic_deletion` stops its replicas and waits for the responses.
                batch.deleted[topic_name] = after.topics[topic_name]
            case ReplicasOffline(_, names):
                # Their states may be unchanged, but their offline replicas are not.
                batch.metadata.update(dict.fromkeys(sorted(names)))
            case BrokerRegistered() | BrokerGone() | ControllerElected():
                batch.has_brokers = True
            case _:
                pass
    return batch


def _roles(partition: PartitionRegistration) -> tuple[object, ...]:
    """The part of LeaderAndIsr that an ISR change does not affect."""
    return (
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.adding,
        partition.removing,
    )


# Requests.


def metadata_states(
    image: ClusterImage, names: Iterable[TopicPartition], deleted: Iterable[TopicImage]
) -> tuple[UpdateMetadataTopicState, ...]:
    """Return the current states of partitions, without topics deleted meanwhile."""
    by_topic: dict[str, list[int]] = {}
    for name in names:
        by_topic.setdefault(name.topic, []).append(name.partition)
    states = [_deleted_state(topic) for topic in deleted]
    epoch, offline = image.version.controller_epoch, _offline_in(image)
    for topic_name, numbers in by_topic.items():
        topic = image.topics.get(topic_name)
        if topic is not None and not topic.is_deleting:
            # A new topic of that name may have fewer partitions.
            existing = [number for number in numbers if number < len(topic.partitions)]
            states.append(_metadata_state(topic, existing, epoch, offline))
    return tuple(states)


def all_metadata_states(image: ClusterImage) -> tuple[UpdateMetadataTopicState, ...]:
    """Return the states of all topics that are not being deleted."""
    epoch, offline = image.version.controller_epoch, _offline_in(image)
    return tuple(
        _metadata_state(topic, range(len(topic.partitions)), epoch, offline)
        for topic in image.topics.values()
        if not topic.is_deleting
    )


def live_brokers(brokers: Mapping[NodeId, BrokerRegistration]) -> tuple[UpdateMetadataBroker, ...]:
    return tuple(
        UpdateMetadataBroker(
            id=broker.node_id,
            rack=broker.rack,
            endpoints=tuple(
                UpdateMetadataEndpoint(
                    port=each.port,
                    host=each.host,
                    listener=each.listener,
                    security_protocol=SECURITY_PROTOCOLS.index(each.security_protocol),
                )
                for each in broker.endpoints
            ),
        )
        for broker in brokers.values()
    )


def role_states(
    image: ClusterImage, node_id: NodeId, roles: Mapping[TopicPartition, bool]
) -> tuple[LeaderAndIsrTopicState, ...]:
    """Return the LeaderAndIsr states of partitions that a broker still hosts.

    A broker in controlled shutdown gets no follower roles.
    """
    by_topic: dict[str, list[LeaderAndIsrPartitionState]] = {}
    broker = image.brokers.get(node_id)
    is_stopping = broker is not None and broker.is_stopping
    for name, is_new in roles.items():
        topic = image.topics.get(name.topic)
        if topic is None or topic.is_deleting or name.partition >= len(topic.partitions):
            continue
        partition = topic.partitions[name.partition]
        has_role = partition.leader == node_id or not is_stopping
        if node_id in partition.replicas and has_role:
            state = _role_state(name.partition, partition, image, is_new=is_new)
            by_topic.setdefault(name.topic, []).append(state)
    return tuple(
        LeaderAndIsrTopicState(
            topic_name=name,
            topic_id=image.topics[name].topic_id,
            partition_states=tuple(states),
        )
        for name, states in by_topic.items()
    )


def stop_states(stops: Mapping[TopicPartition, ReplicaStop]) -> tuple[StopReplicaTopicState, ...]:
    by_topic: dict[str, list[StopReplicaPartitionState]] = {}
    for name, stop in stops.items():
        state = StopReplicaPartitionState(
            partition_index=name.partition,
            leader_epoch=stop.leader_epoch,
            delete_partition=stop.is_deleted,
        )
        by_topic.setdefault(name.topic, []).append(state)
    return tuple(
        StopReplicaTopicState(topic_name=name, partition_states=tuple(states))
        for name, states in by_topic.items()
    )


def _offline_in(image: ClusterImage) -> Offline:
    """Return a function for a partition's offline replicas; fast without failures."""
    live = image.brokers
    has_failed = any(broker.offline_replicas for broker in live.values())

    def offline(topic: str, number: int, partition: PartitionRegistration) -> tuple[NodeId, ...]:
        replicas = partition.replicas
        if has_failed:
            name = TopicPartition(topic, number)
            return tuple([each for each in replicas if not image.has_replica(each, name)])
        return tuple([each for each in replicas if each not in live])

    return offline


def _metadata_state(
    topic: TopicImage, numbers: Iterable[int], controller_epoch: int, offline: Offline
) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        partition_states=tuple(
            UpdateMetadataPartitionState(
                partition_index=number,
                controller_epoch=controller_epoch,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                isr=partition.isr,
                zk_version=partition.partition_epoch,
                replicas=partition.replicas,
                offline_replicas=offline(topic.name, number, partition),
            )
            for number in numbers
            for partition in (topic.partitions[number],)
        ),
    )


def _deleted_state(topic: TopicImage) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        partition_states=tuple(
            UpdateMetadataPartitionState(
                partition_index=number,
                leader=LEADER_DURING_DELETE,
                leader_epoch=partition.leader_epoch,
                zk_version=partition.partition_epoch,
                replicas=partition.replicas,
            )
            for number, partition in enumerate(topic.partitions)
        ),
    )


def _role_state(
    number: int, partition: PartitionRegistration, image: ClusterImage, *, is_new: bool
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=number,
        controller_epoch=image.version.controller_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
        is_new=is_new,
    )
