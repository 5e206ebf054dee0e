"""Arguments and results of the admin client."""

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
    """A topic to create. The broker's defaults apply to what is left out."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Broker ids per partition, instead of the two numbers."""
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
    """A resource that has configs: a topic, broker, broker logger or group."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> "ConfigResource":
        """A broker, or without an id the cluster-wide default of brokers."""
        return cls(ResourceType.BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def loggers(cls, node_id: int) -> "ConfigResource":
        """The loggers of a broker: config names are loggers, values are levels."""
        return cls(ResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def group(cls, group_id: str) -> "ConfigResource":
        return cls(ResourceType.GROUP, group_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config with the source of its value, which is None if it is sensitive."""

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
    """A group as ListGroups returns it. Old brokers leave state and type empty."""

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
    """Consumer protocol (KIP-848) only, as is target_assignment."""
    target_assignment: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group of the classic or the consumer protocol."""

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
    """A replica in a log directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A log directory of a broker; disk sizes are -1 if the broker omits them."""

    path: str
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLogDir:
    """The log directory of a replica, and the target directory if it is being moved.

    `current` is None if the broker does not have the replica.
    """

    current: str | None = None
    current_offset_lag: int = -1
    future: str | None = None
    future_offset_lag: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition reassignment in progress."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id as ListTransactions returns it."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """The state of a transactional id and the partitions in its transaction."""

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
    """The producer id and epoch of a transactional id after fencing."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerDescription:
    """An active producer in the producer state of a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The brokers and the controller of a cluster."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRange:
    """The supported versions of a feature and its finalized level (0: disabled)."""

    min_version: int
    max_version: int
    finalized: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """An ACL binding, or a filter in which omitted fields match anything."""

    resource_type: ResourceKind = ResourceKind.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission_type: Permission = Permission.ANY

    def __str__(self) -> str:
        who = f"{self.principal or 'any principal'} from {self.host or 'any host'}"
        what = f"{kafka_name(self.resource_type)}:{self.pattern_type.name}:{self.resource_name}"
        return f"{self.permission_type.name} {self.operation.name} to {who} on {what}"
