"""The cluster at one moment: who is there, what exists, who leads, what is configured.

An image never changes. `changes.apply` makes the next one, and shares with it all that stayed the
same; so whoever holds an image may read it for as long as it likes, in any thread.
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
    """How new an image is. Ordered: a later controller's changes come after an earlier one's."""

    controller_epoch: int
    sequence: int


FIRST_VERSION: Final = Version(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Where one listener of a broker is reached."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker that is up. Each registration has a larger epoch than all before it.

    The controller alone knows who is about to stop, and which replicas a broker cannot serve.
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
    """Who holds one partition. The first of `replicas` is its preferred leader.

    The leader epoch grows when leadership changes, the partition epoch with every change.
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
    """A topic and its partitions, whose numbers are their places in the tuple.

    One that is being deleted is there for the controller until its last replica is gone. Brokers
    hear that it is gone as soon as that begins.
    """

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionRegistration, ...]
    is_deleting: bool = False


class ConfigResource(NamedTuple):
    """Whose configs: a topic's, one broker's by its id, or `ALL_BROKERS`'.

    Those of users, clients and addresses have names of their own kind, see `config_entities`.
    """

    resource_type: ResourceType
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """Everything that the cluster has agreed on, up to `version`.

    `is_standalone` says that there can never be a second broker, which a cluster that has only one
    left cannot know. `names_by_colliding_key` is for the rule that no two topic names may be equal
    once dots have become underscores; names with neither are left out. `admitted_epochs` has the
    registration of each broker that a controller has dealt with last: a live broker with another
    epoch has come again unseen, and may have lost what it had acknowledged.
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
        """Those that are up and not about to stop: where new replicas may be placed."""
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
        """Whether a broker is up and can serve its replica of a partition."""
        broker = self.brokers.get(node_id)
        return broker is not None and name not in broker.offline_replicas

    def configs_of(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        """What was configured for it while brokers ran; nothing for whatever is not there."""
        return self.configs.get(ConfigResource(resource_type, name), {})
