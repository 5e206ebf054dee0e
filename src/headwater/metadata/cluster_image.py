"""Immutable snapshot of the cluster metadata: brokers, topics, leaders, configs.

`changes.apply` creates the next image and shares unchanged parts with it, so an image can be read
at any time and in any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.metadata.immutable_map import ImmutableMap
from headwater.security.authorization.acl_bindings import AclSet, ResourcePattern

NO_LEADER: Final = NodeId(-1)
NO_CONTROLLER: Final = NodeId(-1)
ALL_BROKERS: Final = ""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A live broker. Each registration has a larger epoch than all before it.

    Only the controller sets `is_stopping` and `offline_replicas`.
    """

    node_id: NodeId
    epoch: int
    rack: str | None = None
    endpoints: tuple[BrokerEndpoint, ...] = ()
    is_stopping: bool = False
    offline_replicas: frozenset[TopicPartition] = frozenset()

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """Replicas, ISR and leader of a partition; the first replica is preferred.

    The leader epoch grows with each leader election, the partition epoch with every change.
    """

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()


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

    `is_standalone`: there can never be a second broker. `names_by_colliding_key` serves the rule
    that topic names must not differ only in `.` and `_`; names with neither are left out.
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
        return broker is not None and name not in broker.offline_replicas

    def configs_of(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        """Return the dynamic configs of a resource; empty if it has none."""
        return self.configs.get(ConfigResource(resource_type, name), {})
