"""Convert between a consumer group's values and its records.

A member that leaves gets three tombstones, the member itself last: Kafka refuses to load a log in
which a member is gone and its assignment still there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from headwater.common.ids import TopicId
from headwater.coordinator.assignors.assignor_spec import Partitions, TopicIdPartition
from headwater.coordinator.group.consumer.consumer_group_member import (
    LEAVING_EPOCH,
    ConsumerGroupMember,
    MemberState,
)
from headwater.coordinator.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataRecord,
    ConsumerGroupRecord,
    ConsumerGroupRegularExpressionRecord,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberRecord,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataRecord,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupKey,
    GroupMemberKey,
    RegularExpressionKey,
    TopicPartitions,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> ConsumerGroupMetadataRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadataRecord(GroupKey(group_id=group_id), value)


def no_partition_metadata(group_id: str) -> ConsumerGroupPartitionMetadataRecord:
    return ConsumerGroupPartitionMetadataRecord(GroupKey(group_id=group_id), None)


def member_metadata(
    group_id: str, member: ConsumerGroupMember
) -> ConsumerGroupMemberMetadataRecord:
    return ConsumerGroupMemberMetadataRecord(
        GroupMemberKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.subscribed_topic_names,
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def with_metadata(
    member: ConsumerGroupMember, value: ConsumerGroupMemberMetadataValue
) -> ConsumerGroupMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=value.subscribed_topic_names,
        subscribed_topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def current_assignment(
    group_id: str, member: ConsumerGroupMember
) -> ConsumerGroupCurrentMemberAssignmentRecord:
    return ConsumerGroupCurrentMemberAssignmentRecord(
        GroupMemberKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=by_topic(member.assigned),
            partitions_pending_revocation=by_topic(member.pending_revocation),
        ),
    )


def with_current_assignment(
    member: ConsumerGroupMember, value: ConsumerGroupCurrentMemberAssignmentValue | None
) -> ConsumerGroupMember:
    if value is None:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=LEAVING_EPOCH, previous_member_epoch=LEAVING_EPOCH
        )
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState.of(value.state),
        assigned=partitions_of(value.assigned_partitions),
        pending_revocation=partitions_of(value.partitions_pending_revocation),
    )


def target_epoch(group_id: str, epoch: int) -> ConsumerGroupTargetAssignmentMetadataRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
    return ConsumerGroupTargetAssignmentMetadataRecord(GroupKey(group_id=group_id), value)


def target_assignment(
    group_id: str, member_id: str, target: Partitions
) -> ConsumerGroupTargetAssignmentMemberRecord:
    return ConsumerGroupTargetAssignmentMemberRecord(
        GroupMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=by_topic(target)),
    )


def resolved_regex(
    group_id: str, regex: str, value: ConsumerGroupRegularExpressionValue | None
) -> ConsumerGroupRegularExpressionRecord:
    key = RegularExpressionKey(group_id=group_id, regular_expression=regex)
    return ConsumerGroupRegularExpressionRecord(key, value)


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerGroupRecord]:
    key = GroupMemberKey(group_id=group_id, member_id=member_id)
    return [
        ConsumerGroupCurrentMemberAssignmentRecord(key, None),
        ConsumerGroupTargetAssignmentMemberRecord(key, None),
        ConsumerGroupMemberMetadataRecord(key, None),
    ]


def group_tombstones(
    group_id: str, member_ids: Sequence[str], regexes: Sequence[str]
) -> list[ConsumerGroupRecord]:
    key = GroupKey(group_id=group_id)
    members = [GroupMemberKey(group_id=group_id, member_id=each) for each in member_ids]
    return [
        *(ConsumerGroupCurrentMemberAssignmentRecord(each, None) for each in members),
        *(ConsumerGroupTargetAssignmentMemberRecord(each, None) for each in members),
        ConsumerGroupTargetAssignmentMetadataRecord(key, None),
        *(ConsumerGroupMemberMetadataRecord(each, None) for each in members),
        *(resolved_regex(group_id, each, None) for each in regexes),
        ConsumerGroupPartitionMetadataRecord(key, None),
        ConsumerGroupMetadataRecord(key, None),
    ]


def by_topic(partitions: Partitions) -> tuple[TopicPartitions, ...]:
    numbers: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        numbers.setdefault(topic_id, []).append(partition)
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(each))
        for topic_id, each in numbers.items()
    )


class PartitionsOfTopic(Protocol):
    """Partitions of a topic, as several record and request classes have them."""

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def partitions(self) -> tuple[int, ...]: ...


def partitions_of(topics: Iterable[PartitionsOfTopic]) -> Partitions:
    return frozenset(
        TopicIdPartition(each.topic_id, partition)
        for each in topics
        for partition in each.partitions
    )
