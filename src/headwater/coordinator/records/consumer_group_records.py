"""A group of the new protocol (KIP-848) as many small records of `__consumer_offsets`.

Group, members, what each shall have, what each has: each has a record of its own, so that a
heartbeat writes only what it changed. A null value takes back what the key names; since compaction
may have dropped any older record, none of them may be relied on to come before another.
"""

from dataclasses import dataclass

from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class GroupKey:
    """The key of whatever there is once in a group."""

    group_id: str = one("string", default="")


@protocol_message
class GroupMemberKey:
    """The key of whatever there is once for each member."""

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
    """What Kafka before 4.1 knew of a group's topics. Since then a hash in the group's record."""

    topics: tuple[TopicMetadata, ...] = many(TopicMetadata, default=())


@protocol_message
class ClassicProtocol:
    name: str = one("string", default="")
    metadata: bytes = one("bytes", default=b"")


@protocol_message
class ClassicMemberMetadata:
    """What a member said that speaks the classic protocol."""

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
    # Kafka does this (4.1): its schema forgot to say that null is the default, so null is written.
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
    """`state` is 0 for stable, 1 for unrevoked partitions, 2 for unreleased ones, 127 unknown."""

    member_epoch: int = one("int32", default=0)
    previous_member_epoch: int = one("int32", default=0)
    state: int = one("int8", default=0)
    assigned_partitions: tuple[TopicPartitions, ...] = many(TopicPartitions, default=())
    partitions_pending_revocation: tuple[TopicPartitions, ...] = many(TopicPartitions, default=())


@protocol_message
class ConsumerGroupRegularExpressionValue:
    """The topics that a regular expression matched, in which version of the metadata, and when."""

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
