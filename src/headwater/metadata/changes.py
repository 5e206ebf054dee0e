"""What can happen to a cluster, as facts, and the one function that applies them.

Facts are decided elsewhere; applying one asks no question. What a reader would get wrong: `apply`
takes the facts of one change together, because the next image must show all of them or none, and
because ten thousand at once cost hardly more than their number.

Some facts no store ever sees. `TopicKnown` and `PartitionDropped` are what `metadata_cache` makes
of the controller's words; `BrokerStopping` and `ReplicasOffline` are what the controller alone has
heard, and the next one must hear again; `LogDirectoryFailed` is news that changes no image.
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
    """A broker came up, or came again with a new epoch."""

    broker: BrokerRegistration


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """A broker's session ended."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class ControllerElected:
    """A controller took over. Its epoch is the version's."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class ControllerGone:
    """The controller's session ended, and nobody has taken over yet."""


@dataclass(frozen=True, slots=True)
class BrokerAdmitted:
    """The controller has dealt with a broker's registration: it may lead and be in sync again."""

    node_id: NodeId
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerStopping:
    """A broker is about to stop: it shall lead nothing, and be counted on by nobody."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class ReplicasOffline:
    """A broker that is up cannot serve these replicas, until it comes again."""

    node_id: NodeId
    names: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class LogDirectoryFailed:
    """A broker has lost a log directory; which replicas were on it, only the broker can tell."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists, with all its partitions and with a fresh id."""

    topic: TopicImage


@dataclass(frozen=True, slots=True)
class TopicKnown:
    """A broker hears of a topic that may be older than all that the broker has heard before.

    Its replicas here are not new: where one is missing, its log directory may have failed.
    """

    topic: TopicImage


@dataclass(frozen=True, slots=True)
class TopicDeletionBegun:
    """A topic shall go. It is gone when all its replicas are."""

    name: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic and its configs are gone."""

    name: str


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A topic has more partitions, numbered on from its last one."""

    topic: str
    partitions: tuple[PartitionRegistration, ...]


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """Replicas, in-sync replicas or the leader of a partition are others."""

    topic: str
    number: int
    partition: PartitionRegistration


@dataclass(frozen=True, slots=True)
class PartitionDropped:
    """This broker shall no longer serve its replica of a partition, and perhaps delete it.

    The partition may live on elsewhere. A replica that is told of anew is a replica again.
    """

    topic: str
    number: int
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class ConfigsReplaced:
    """The whole set of a resource's configs; an empty one is the end of it."""

    resource: ConfigResource
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FeatureFinalized:
    """The level of a feature that the whole cluster now relies on; 0 is the end of it."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class AclsReplaced:
    """All rules of a resource pattern; none are the end of it."""

    pattern: ResourcePattern
    acls: AclSet


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """Producer ids below this one belong to somebody."""

    next_producer_id: int


MetadataChange = (
    BrokerRegistered
    | BrokerGone
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
"""What every broker hears from the store, and not from the controller."""


def apply(image: ClusterImage, changes: Iterable[MetadataChange], version: Version) -> ClusterImage:
    """The image after one change."""
    draft = _Draft(image)
    for change in changes:
        draft.apply(change)
    return draft.finish(version)


def changes_of(image: ClusterImage) -> Iterator[MetadataChange]:
    """Facts that lead from an empty image to this one, apart from who is up and who controls."""
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
    """The changes to an image while facts are applied to it."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._controller_id = image.controller_id
        self._brokers: dict[NodeId, BrokerRegistration | None] = {}
        self._topics: dict[str, TopicImage | None] = {}
        self._ids: dict[TopicId, str | None] = {}
        self._keys: dict[str, str | None] = {}
        self._configs: dict[ConfigResource, Mapping[str, str] | None] = {}
        self._features: dict[str, int | None] = {}
        self._admitted: dict[NodeId, int | None] = {}
        self._acls: dict[ResourcePattern, AclSet | None] = {}
        self._next_producer_id = image.next_producer_id
        # Lists while they are worked on: many changes to one large topic must not copy it each.
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
                self._brokers[broker.node_id] = broker
            case BrokerGone(node_id):
                self._brokers[node_id] = None
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
        )

    def _broker(self, node_id: NodeId) -> BrokerRegistration:
        broker = self._brokers.get(node_id, self._image.brokers.get(node_id))
        assert broker is not None, f"a fact about broker {node_id}, which is not up"
        return broker

    def _topic(self, name: str) -> TopicImage:
        topic = self._topics[name] if name in self._topics else self._image.topics.get(name)
        assert topic is not None, f"a fact about topic {name}, which does not exist"
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
