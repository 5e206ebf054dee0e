"""Records of a consumer group (KIP-848) in `__consumer_offsets`.

The group, its members, their target and current assignments have separate records, so that a
heartbeat writes only what it changed. A null value deletes what the key names. Since compaction may
have removed any older record, replay must not rely on one coming before another.
"""

from dataclasses import dataclass

from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class GroupKey:
    """Key of records that exist once per group."""

    group_id: str = one("string", default="")


@protocol_message
class GroupMemberKey:
    """Key of records that exist once per member."""

    group_id: str = one("string", default="")
    member_id: str = one("string", default="")


@protocol_message
class RegularExpressionKey:
    group_id: str = one("string", default="")
    regular_expression: str = one("string", default="")


@protocol_message
class ConsumerGroupMetadataValue:
    epoch: int = one("int32", default=0)
    metadata_hash: int = one("int64", default=0, tag=0)


@protocol_message
class PartitionRacks:
    partition: int = one("int32", default=0)
    racks: tuple[str, ...] = many("string", default=())


@protocol_message
class TopicMetadata:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    topic_name: str = one("string", default="")
    num_partitions: int = one("int32", default=0)
    partition_metadata: tuple[PartitionRacks, ...] = many(PartitionRacks, default=())


@protocol_message
class ConsumerGroupPartitionMetadataValue:
    """Topic metadata as written before Kafka 4.1, which writes a hash instead."""

    topics: tuple[TopicMetadata, ...] = many(TopicMetadata, default=())


@protocol_message
class ClassicProtocol:
    name: str = one("string", default="")
    metadata: bytes = one("bytes", default=b"")


@protocol_message
class ClassicMemberMetadata:
    """Session timeout and protocols of a member that uses the classic protocol."""

    session_timeout_ms: int = one("int32", default=0)
    supported_protocols: tuple[ClassicProtocol, ...] = many(ClassicProtocol, default=())


@protocol_message
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = one("string", default=None, nullable_since=0)
    rack_id: str | None = one("string", default=None, nullable_since=0)
    client_id: str = one("string", default="")
    client_host: str = one("string", default="")
    subscribed_topic_names: tuple[str, ...] = many("string", default=())
    subscribed_topic_regex: str | None = one("string", default=None, nullable_since=0)
    rebalance_timeout_ms: int = one("int32", default=-1)
    server_assignor: str | None = one("string", default=None, nullable_since=0)
    # As in Kafka 4.1, null is written: its schema does not declare null as the default.
    classic_member_metadata: ClassicMemberMetadata | None = one(
        ClassicMemberMetadata,
        default=None,
        nullable_since=0,
        tag=0,
        absent=ClassicMemberMetadata(),
    )


@protocol_message
class TopicPartitions:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = one("int32", default=0)


@protocol_message
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TopicPartitions, ...] = many(TopicPartitions, default=())


@protocol_message
class ConsumerGroupCurrentMemberAssignmentValue:
    """`state`: 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown."""

    member_epoch: int = one("int32", default=0)
    previous_member_epoch: int = one("int32", default=0)
    state: int = one("int8", default=0)
    assigned_partitions: tuple[TopicPartitions, ...] = many(TopicPartitions, default=())
    partitions_pending_revocation: tuple[TopicPartitions, ...] = many(TopicPartitions, default=())


@protocol_message
class ConsumerGroupRegularExpressionValue:
    """Topics that a regular expression matched, with metadata version and time."""

    topics: tuple[str, ...] = many("string", default=())
    version: int = one("int64", default=0)
    timestamp: int = one("int64", default=0)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataRecord:
    key: GroupKey
    value: ConsumerGroupMetadataValue | None


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataRecord:
    key: GroupKey
    value: ConsumerGroupPartitionMetadataValue | None


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataRecord:
    key: GroupMemberKey
    value: ConsumerGroupMemberMetadataValue | None


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataRecord:
    key: GroupKey
    value: ConsumerGroupTargetAssignmentMetadataValue | None


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberRecord:
    key: GroupMemberKey
    value: ConsumerGroupTargetAssignmentMemberValue | None


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentRecord:
    key: GroupMemberKey
    value: ConsumerGroupCurrentMemberAssignmentValue | None


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionRecord:
    key: RegularExpressionKey
    value: ConsumerGroupRegularExpressionValue | None


ConsumerGroupRecord = (
    ConsumerGroupMetadataRecord
    | ConsumerGroupPartitionMetadataRecord
    | ConsumerGroupMemberMetadataRecord
    | ConsumerGroupTargetAssignmentMetadataRecord
    | ConsumerGroupTargetAssignmentMemberRecord
    | ConsumerGroupCurrentMemberAssignmentRecord
    | ConsumerGroupRegularExpressionRecord
)
