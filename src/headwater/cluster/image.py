"""The cluster at one moment: who is there, what exists, who leads, what is configured.

An image never changes. `facts.apply` makes the next one, and shares with it all that stayed the
same; so whoever holds an image may read it for as long as it likes, in any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headwater.cluster.layered_map import LayeredMap
from headwater.model.config_terms import ResourceType
from headwater.model.ids import NodeId, TopicId, TopicPartition
from headwater.security.acls.bindings import AclSet, ResourcePattern

NO_LEADER: Final = NodeId(-1)
NO_CONTROLLER: Final = NodeId(-1)
ALL_BROKERS: Final = ""


class Version(NamedTuple):
    """How new an image is. Ordered: a later controller's changes come after an earlier one's."""

    controller_epoch: int
    sequence: int


FIRST_VERSION: Final = Version(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one listener of a broker is reached."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker that is up. Each registration has a larger epoch than all before it.

    The controller alone knows who is about to stop, and which replicas a broker cannot serve.
    """

    node_id: NodeId
    epoch: int
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    is_stopping: bool = False
    offline_replicas: frozenset[TopicPartition] = frozenset()

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
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
class Topic:
    """A topic and its partitions, whose numbers are their places in the tuple.

    One that is being deleted is there for the controller until its last replica is gone. Brokers
    hear that it is gone as soon as that begins.
    """

    name: str
    topic_id: TopicId
    partitions: tuple[Partition, ...]
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
    brokers: Mapping[NodeId, Broker] = field(default_factory=dict)
    topics: LayeredMap[str, Topic] = field(default_factory=LayeredMap)
    names_by_id: LayeredMap[TopicId, str] = field(default_factory=LayeredMap)
    names_by_colliding_key: LayeredMap[str, str] = field(default_factory=LayeredMap)
    configs: LayeredMap[ConfigResource, Mapping[str, str]] = field(default_factory=LayeredMap)
    features: Mapping[str, int] = field(default_factory=dict)
    admitted_epochs: Mapping[NodeId, int] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: LayeredMap[ResourcePattern, AclSet] = field(default_factory=LayeredMap)

    @property
    def staying_brokers(self) -> Mapping[NodeId, Broker]:
        """Those that are up and not about to stop: where new replicas may be placed."""
        return {key: each for key, each in self.brokers.items() if not each.is_stopping}

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, partition: int) -> Partition | None:
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
