"""What an admin client is told, and what it tells: plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.client.admin.config_values import ConfigValue
from headwater.client.network.cluster_metadata import BrokerNode, PartitionView
from headwater.common.config_types import ConfigSource, ResourceType
from headwater.common.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.security.authorization.acl_bindings import PatternType, Permission, kafka_name
from headwater.security.authorization.authorizer import Operation, ResourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be made. What is left out, the broker chooses."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The brokers of each partition, instead of the two numbers."""
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and its partitions."""

    name: str
    topic_id: TopicId = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[PartitionView, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """Whose configs: a topic's, a broker's by its id, or another's."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> "ConfigResource":
        """A broker's, or without an id what all brokers are set to together."""
        return cls(ResourceType.BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def loggers(cls, node_id: int) -> "ConfigResource":
        """The loggers of a broker: their names are the configs, and their levels the values."""
        return cls(ResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def group(cls, group_id: str) -> "ConfigResource":
        return cls(ResourceType.GROUP, group_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config and where its value comes from. A sensitive one has no value to show."""

    name: str
    value: str | None
    source: ConfigSource | int
    is_read_only: bool = False
    is_sensitive: bool = False
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as brokers list it. Old brokers leave the last two empty."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """One member of a group."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    member_epoch: int | None = None
    """Of the new protocol only, like the next one."""
    target_assignment: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group of either protocol."""

    group_id: str
    type: str
    """classic or consumer."""
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    group_epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """How much of a partition lies in a log directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """One log directory of a broker; the sizes of its disk are -1 where they are not told."""

    path: str
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLogDir:
    """In which log directory of a broker a replica lies, and to which one it moves, if it does.

    A replica that the broker does not have lies nowhere: `current` is None then.
    """

    current: str | None = None
    current_offset_lag: int = -1
    future: str | None = None
    future_offset_lag: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on the move."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id, and what its transaction has touched."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedProducer:
    """Whom a transactional id stands for, after those who had it were fenced off."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerDescription:
    """A producer that a partition remembers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The brokers of a cluster."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRange:
    """A feature: what brokers can do, and at which level it is switched on (0: off)."""

    min_version: int
    max_version: int
    finalized: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """A rule about rights, or a filter for rules, in which what is left out means anything."""

    resource_type: ResourceKind = ResourceKind.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission_type: Permission = Permission.ANY

    def __str__(self) -> str:
        whom = f"{self.principal or 'anybody'} from {self.host or 'any host'}"
        what = f"{kafka_name(self.resource_type)}:{self.pattern_type.name}:{self.resource_name}"
        return f"{self.permission_type.name} {self.operation.name} to {whom} on {what}"
