"""Changes to the cluster metadata, and how they are applied to an image.

Decisions are made elsewhere; applying a change never fails.

Note: `apply` takes all changes of one write together, because the next image must contain all of
them or none, and because ten thousand at once then cost little more than their number.

Some changes are never stored. `metadata_cache` derives `TopicKnown` and `PartitionDropped` from the
controller's requests. `BrokerStopping` and `ReplicasOffline` are known to the current controller
only, and a new one learns them again. `LogDirectoryFailed` is an event that changes no image.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, assert_never

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.metadata.cluster_image import (
    NO_CONTROLLER,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ControllerRegistration,
    PartitionRegistration,
    TopicImage,
    Version,
)
from headwater.metadata.internal_topics import colliding_key
from headwater.security.authorization.acl_bindings import AclSet, ResourcePattern

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker registered, maybe again with a new epoch, or its registration changed.

    In a KRaft cluster the latter fences and unfences it.
    """

    broker: BrokerRegistration


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """The session or registration of a broker ended."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class ControllerRegistered:
    """A node of the KRaft quorum registered, maybe again."""

    controller: ControllerRegistration


@dataclass(frozen=True, slots=True)
class ControllerElected:
    """A controller was elected. Its epoch is in the version."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class ControllerGone:
    """The controller's session ended and no other is elected yet."""


@dataclass(frozen=True, slots=True)
class BrokerAdmitted:
    """The controller has processed a registration: the broker may lead again."""

    node_id: NodeId
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerStopping:
    """A broker started a controlled shutdown: it must not lead or be in an ISR."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class ReplicasOffline:
    """A live broker cannot serve these replicas until it registers again."""

    node_id: NodeId
    names: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class LogDirectoryFailed:
    """A log directory of a broker failed; only the broker knows its replicas."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic was created, with all its partitions and a new id."""

    topic: TopicImage


@dataclass(frozen=True, slots=True)
class TopicKnown:
    """A broker learned of a topic that may have existed before the broker started.

    Its replicas here are not new: if one is missing, its log directory may have failed.
    """

    topic: TopicImage


@dataclass(frozen=True, slots=True)
class TopicDeletionBegun:
    """The deletion of a topic started; it ends when all its replicas are deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic and its configs are deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """Partitions were added to a topic, numbered after its last one."""

    topic: str
    partitions: tuple[PartitionRegistration, ...]


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """Replicas, ISR or leader of a partition changed."""

    topic: str
    number: int
    partition: PartitionRegistration


@dataclass(frozen=True, slots=True)
class PartitionDropped:
    """This broker stops serving a replica, and deletes it if `is_deleted`.

    The partition may continue on other brokers. A later LeaderAndIsr can make this broker a replica
    again.
    """

    topic: str
    number: int
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class ConfigsReplaced:
    """All configs of a resource; empty if it has none any more."""

    resource: ConfigResource
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FeatureFinalized:
    """The finalized level of a feature; 0 removes it."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class AclsReplaced:
    """All ACLs of a resource pattern; empty if it has none any more."""

    pattern: ResourcePattern
    acls: AclSet


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """Producer ids below this one are allocated."""

    next_producer_id: int


MetadataChange = (
    BrokerRegistered
    | BrokerGone
    | ControllerRegistered
    | ControllerElected
    | ControllerGone
    | BrokerAdmitted
    | BrokerStopping
    | ReplicasOffline
    | LogDirectoryFailed
    | TopicCreated
    | TopicKnown
    | TopicDeletionBegun
    | TopicDeleted
    | PartitionsAdded
    | PartitionChanged
    | PartitionDropped
    | ConfigsReplaced
    | FeatureFinalized
    | ProducerIdsAllocated
    | AclsReplaced
)

KnownToAll = ConfigsReplaced | FeatureFinalized | AclsReplaced
"""What every broker learns from the store, not from the controller."""


def apply(image: ClusterImage, changes: Iterable[MetadataChange], version: Version) -> ClusterImage:
    """Return the image after a list of changes."""
    draft = _Draft(image)
    for change in changes:
        draft.apply(change)
    return draft.finish(version)


def changes_of(image: ClusterImage) -> Iterator[MetadataChange]:
    """Yield changes that build this image from an empty one, without brokers."""
    for topic in image.topics.values():
        yield TopicCreated(replace(topic, is_deleting=False) if topic.is_deleting else topic)
        if topic.is_deleting:
            yield TopicDeletionBegun(topic.name)
    for node_id, epoch in image.admitted_epochs.items():
        yield BrokerAdmitted(node_id, epoch)
    for resource, values in image.configs.items():
        yield ConfigsReplaced(resource, values)
    for name, level in image.features.items():
        yield FeatureFinalized(name, level)
    if image.next_producer_id:
        yield ProducerIdsAllocated(image.next_producer_id)
    for pattern, acls in image.acls.items():
        yield AclsReplaced(pattern, acls)


class _Draft:
    """The next image while changes are applied."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._controller_id = image.controller_id
        self._brokers: dict[NodeId, BrokerRegistration | None] = {}
        self._fenced: dict[NodeId, BrokerRegistration | None] = {}
        self._controllers: dict[NodeId, ControllerRegistration | None] = {}
        self._topics: dict[str, TopicImage | None] = {}
        self._ids: dict[TopicId, str | None] = {}
        self._keys: dict[str, str | None] = {}
        self._configs: dict[ConfigResource, Mapping[str, str] | None] = {}
        self._features: dict[str, int | None] = {}
        self._admitted: dict[NodeId, int | None] = {}
        self._acls: dict[ResourcePattern, AclSet | None] = {}
        self._next_producer_id = image.next_producer_id
        # Lists while editing: many changes to one large topic must not copy it each time.
        self._partitions: dict[str, list[PartitionRegistration]] = {}

    def apply(self, change: MetadataChange) -> None:
        match change:
            case TopicCreated(topic) | TopicKnown(topic):
                self._create(topic)
            case TopicDeletionBegun(name):
                self._topics[name] = replace(self._topic(name), is_deleting=True)
            case TopicDeleted(name):
                self._delete(name)
            case PartitionsAdded(name, added):
                self._partitions_of(name).extend(added)
            case PartitionChanged(name, number, partition):
                self._partitions_of(name)[number] = partition
            case ConfigsReplaced(resource, values):
                self._configs[resource] = dict(values) or None
            case BrokerRegistered(broker):
                self._brokers[broker.node_id] = None if broker.is_fenced else broker
                self._fenced[broker.node_id] = broker if broker.is_fenced else None
            case ControllerRegistered(controller):
                self._controllers[controller.node_id] = controller
            case BrokerGone(node_id):
                self._brokers[node_id] = self._fenced[node_id] = None
                if self._controller_id == node_id:
                    self._controller_id = NO_CONTROLLER
            case ControllerElected(node_id):
                self._controller_id = node_id
            case ControllerGone():
                self._controller_id = NO_CONTROLLER
            case BrokerAdmitted(node_id, epoch):
                self._admitted[node_id] = epoch
            case BrokerStopping(node_id):
                self._brokers[node_id] = replace(self._broker(node_id), is_stopping=True)
            case ReplicasOffline(node_id, names):
                broker = self._broker(node_id)
                offline = broker.offline_replicas | names
                self._brokers[node_id] = replace(broker, offline_replicas=offline)
            case LogDirectoryFailed() | PartitionDropped():
                pass
            case FeatureFinalized(name, level):
                self._features[name] = level or None
            case ProducerIdsAllocated(next_producer_id):
                self._next_producer_id = next_producer_id
            case AclsReplaced(pattern, acls):
                self._acls[pattern] = acls if acls.entries else None
            case _:
                assert_never(change)

    def finish(self, version: Version) -> ClusterImage:
        image = self._image
        for name in list(self._partitions):
            self._topics[name] = self._topic(name)
        return replace(
            image,
            version=version,
            controller_id=self._controller_id,
            brokers=_changed(image.brokers, self._brokers),
            topics=image.topics.changed(self._topics),
            names_by_id=image.names_by_id.changed(self._ids),
            names_by_colliding_key=image.names_by_colliding_key.changed(self._keys),
            configs=image.configs.changed(self._configs),
            features=_changed(image.features, self._features),
            admitted_epochs=_changed(image.admitted_epochs, self._admitted),
            next_producer_id=self._next_producer_id,
            acls=image.acls.changed(self._acls),
            fenced_brokers=_changed(image.fenced_brokers, self._fenced),
            controllers=_changed(image.controllers, self._controllers),
        )

    def _broker(self, node_id: NodeId) -> BrokerRegistration:
        broker = self._brokers.get(node_id, self._image.brokers.get(node_id))
        assert broker is not None, f"change for broker {node_id}, which is not registered"
        return broker

    def _topic(self, name: str) -> TopicImage:
        topic = self._topics[name] if name in self._topics else self._image.topics.get(name)
        assert topic is not None, f"change for topic {name}, which does not exist"
        edited = self._partitions.pop(name, None)
        return topic if edited is None else replace(topic, partitions=tuple(edited))

    def _partitions_of(self, name: str) -> list[PartitionRegistration]:
        if name not in self._partitions:
            self._partitions[name] = list(self._topic(name).partitions)
        return self._partitions[name]

    def _create(self, topic: TopicImage) -> None:
        name = topic.name
        self._topics[name] = topic
        self._ids[topic.topic_id] = name
        key = colliding_key(name)
        if key is not None:
            self._keys[key] = name

    def _delete(self, name: str) -> None:
        self._ids[self._topic(name).topic_id] = None
        self._topics[name] = None
        self._configs[ConfigResource(ResourceType.TOPIC, name)] = None
        key = colliding_key(name)
        if key is not None:
            self._keys[key] = None


def _changed(entries: Mapping[K, V], updates: Mapping[K, V | None]) -> Mapping[K, V]:
    if not updates:
        return entries
    merged = {**entries, **updates}
    return {key: value for key, value in merged.items() if value is not None}


ImageListener = Callable[[ClusterImage, Sequence[MetadataChange]], None]
