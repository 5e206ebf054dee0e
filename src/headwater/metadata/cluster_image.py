"""Immutable snapshot of the cluster metadata: brokers, topics, leaders, configs.

`changes.apply` creates the next image and shares unchanged parts with it, so an image can be read
at any time and in any thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headwater.common.config_types import ResourceType
from headwater.common.ids import NO_TOPIC_ID, NodeId, TopicId, TopicPartition
from headwater.metadata.immutable_map import ImmutableMap
from headwater.security.authorization.acl_bindings import AclSet, ResourcePattern

NO_LEADER: Final = NodeId(-1)
NO_CONTROLLER: Final = NodeId(-1)
ALL_BROKERS: Final = ""

# Ids of log directories with a meaning of their own (Kafka: DirectoryId).
UNASSIGNED_DIRECTORY: Final = NO_TOPIC_ID
LOST_DIRECTORY: Final = TopicId(bytes(15) + b"\1")
MIGRATING_DIRECTORY: Final = TopicId(bytes(15) + b"\2")


class Version(NamedTuple):
    """Age of an image, ordered by controller, then by sequence of its changes."""

    controller_epoch: int
    sequence: int


FIRST_VERSION: Final = Version(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Address of one listener of a broker."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class SupportedFeature(NamedTuple):
    """Levels of a feature that a broker or controller supports."""

    name: str
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A registered broker. Each registration has a larger epoch than all before it.

    Only the controller sets `is_stopping` and `offline_replicas`. In a KRaft cluster a broker is
    fenced until it has caught up with the metadata log, and again when its session ends. It names
    its online log directories there; elsewhere `log_dirs` is empty.
    """

    node_id: NodeId
    epoch: int
    rack: str | None = None
    endpoints: tuple[BrokerEndpoint, ...] = ()
    is_stopping: bool = False
    offline_replicas: frozenset[TopicPartition] = frozenset()
    is_fenced: bool = False
    incarnation_id: TopicId = NO_TOPIC_ID
    features: tuple[SupportedFeature, ...] = ()
    log_dirs: tuple[TopicId, ...] = ()

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        return next((each for each in self.endpoints if each.listener == listener), None)

    def has_online_directory(self, directory_id: TopicId) -> bool:
        """Return whether a directory is online, or not known to be offline."""
        if directory_id in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY) or not self.log_dirs:
            return True
        return directory_id in self.log_dirs


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """A node of the KRaft quorum that registered with the active controller (KIP-919)."""

    node_id: NodeId
    incarnation_id: TopicId = NO_TOPIC_ID
    endpoints: tuple[BrokerEndpoint, ...] = ()
    features: tuple[SupportedFeature, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """Replicas, ISR and leader of a partition; the first replica is preferred.

    The leader epoch grows with each leader election, the partition epoch with every change.
    `directories` has the log directory of each replica, in their order; it is empty while all are
    unassigned, and always without KRaft. `elr` and `last_known_elr`: see
    `headwater.controller.eligible_leader_replicas`; only with an ELR may the ISR be empty.
    """

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    directories: tuple[TopicId, ...] = ()
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()

    def directory_of(self, node_id: NodeId) -> TopicId:
        """Return the log directory of a replica; unassigned if it is not known."""
        if not self.directories or node_id not in self.replicas:
            return UNASSIGNED_DIRECTORY
        return self.directories[self.replicas.index(node_id)]

    def directories_of(self, replicas: Sequence[NodeId]) -> tuple[TopicId, ...]:
        """Return the directories for other replicas; a new replica has none yet."""
        return assigned_directories([self.directory_of(each) for each in replicas])


def assigned_directories(directories: Sequence[TopicId]) -> tuple[TopicId, ...]:
    """Return the value of `PartitionRegistration.directories`."""
    is_empty = all(each == UNASSIGNED_DIRECTORY for each in directories)
    return () if is_empty else tuple(directories)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic and its partitions; a partition's number is its index in the tuple.

    A topic that is being deleted stays in the controller's image until its last replica is deleted.
    Other brokers drop it as soon as the deletion starts.
    """

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionRegistration, ...]
    is_deleting: bool = False


class ConfigResource(NamedTuple):
    """Owner of configs: a topic, a broker id, or `ALL_BROKERS`.

    For the names of users, client ids and IP addresses see `config_entities`.
    """

    resource_type: ResourceType
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """The committed metadata of the cluster up to `version`.

    `is_standalone`: there can never be a second broker. `brokers` are the live ones;
    `fenced_brokers` are registered and fenced, in a KRaft cluster only.
    `names_by_colliding_key` serves the rule that topic names must not differ only in `.` and `_`;
    names with neither are left out.
    `admitted_epochs` has the broker epoch that a controller last processed: a live broker with
    another epoch has restarted unnoticed and may have lost acknowledged records.
    """

    cluster_id: str
    is_standalone: bool = False
    version: Version = FIRST_VERSION
    controller_id: NodeId = NO_CONTROLLER
    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    topics: ImmutableMap[str, TopicImage] = field(default_factory=ImmutableMap)
    names_by_id: ImmutableMap[TopicId, str] = field(default_factory=ImmutableMap)
    names_by_colliding_key: ImmutableMap[str, str] = field(default_factory=ImmutableMap)
    configs: ImmutableMap[ConfigResource, Mapping[str, str]] = field(default_factory=ImmutableMap)
    features: Mapping[str, int] = field(default_factory=dict)
    admitted_epochs: Mapping[NodeId, int] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: ImmutableMap[ResourcePattern, AclSet] = field(default_factory=ImmutableMap)
    fenced_brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)

    @property
    def is_kraft(self) -> bool:
        """Whether this is a KRaft cluster: only these finalize metadata.version."""
        return "metadata.version" in self.features

    def registration(self, node_id: NodeId) -> BrokerRegistration | None:
        """Return the registration of a broker, fenced or not."""
        return self.brokers.get(node_id) or self.fenced_brokers.get(node_id)

    @property
    def staying_brokers(self) -> Mapping[NodeId, BrokerRegistration]:
        """Live brokers that are not shutting down: new replicas may be placed on these."""
        return {key: each for key, each in self.brokers.items() if not each.is_stopping}

    def topic_by_id(self, topic_id: TopicId) -> TopicImage | None:
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def has_replica(self, node_id: NodeId, name: TopicPartition) -> bool:
        """Return whether a broker is live and can serve its replica of a partition."""
        broker = self.brokers.get(node_id)
        if broker is None or name in broker.offline_replicas:
            return False
        if not broker.log_dirs:
            return True
        partition = self.partition(*name)
        return partition is None or broker.has_online_directory(partition.directory_of(node_id))

    def configs_of(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        """Return the dynamic configs of a resource; empty if it has none."""
        return self.configs.get(ConfigResource(resource_type, name), {})
