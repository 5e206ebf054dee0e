"""Durable state of a consumer group, built from its records.

Compaction may have removed any record that a later one replaced, so replay does not rely on one
record coming before another. That is why a partition has an owner and is only released by that
owner: an older record of a member may come after the record of the next owner.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, assert_never

from headwater.coordinator.assignors.assignor_spec import (
    NO_PARTITIONS,
    Partitions,
    TopicIdPartition,
)
from headwater.coordinator.group.consumer import consumer_group_record_values as record_values
from headwater.coordinator.group.consumer.consumer_group_member import (
    LEAVING_EPOCH,
    ConsumerGroupMember,
)
from headwater.coordinator.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    ConsumerGroupPartitionMetadataRecord,
    ConsumerGroupRecord,
    ConsumerGroupRegularExpressionRecord,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberRecord,
    ConsumerGroupTargetAssignmentMetadataRecord,
)

NO_ASSIGNMENT_EPOCH: Final = -1


class ConsumerGroupStateName(Enum):
    """Named as in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(slots=True)
class ConsumerGroupState:
    """The durable state of one group. Only `replay` changes it."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = NO_ASSIGNMENT_EPOCH
    members: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    regexes: dict[str, ConsumerGroupRegularExpressionValue] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    has_partition_metadata: bool = False

    @property
    def name(self) -> ConsumerGroupStateName:
        if not self.members:
            return ConsumerGroupStateName.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupStateName.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupStateName.STABLE
        return ConsumerGroupStateName.RECONCILING

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def is_free(self, partition: TopicIdPartition) -> bool:
        return partition not in self.owners

    def topics_of_regex(self, regex: str) -> tuple[str, ...]:
        resolved = self.regexes.get(regex)
        return () if resolved is None else resolved.topics

    def topics_by_regex(self) -> Mapping[str, tuple[str, ...]]:
        return {regex: value.topics for regex, value in self.regexes.items()}

    def replay(self, record: ConsumerGroupRecord) -> None:
        match record:
            case ConsumerGroupMetadataRecord():
                self._replay_group(record)
            case ConsumerGroupPartitionMetadataRecord():
                self.has_partition_metadata = record.value is not None
            case ConsumerGroupMemberMetadataRecord():
                self._replay_member(record)
            case ConsumerGroupTargetAssignmentMetadataRecord():
                value = record.value
                epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
                self.assignment_epoch = epoch
            case ConsumerGroupTargetAssignmentMemberRecord():
                self._replay_target(record)
            case ConsumerGroupCurrentMemberAssignmentRecord():
                self._replay_current(record)
            case ConsumerGroupRegularExpressionRecord():
                self._replay_regex(record)
            case _:
                assert_never(record)

    def _replay_group(self, record: ConsumerGroupMetadataRecord) -> None:
        if record.value is None:
            self.epoch, self.metadata_hash = 0, 0
        else:
            self.epoch, self.metadata_hash = record.value.epoch, record.value.metadata_hash

    def _replay_member(self, record: ConsumerGroupMemberMetadataRecord) -> None:
        member_id = record.key.member_id
        before = self.members.get(member_id)
        if record.value is None:
            if before is not None:
                self._release(before)
                self._forget_instance(before)
                del self.members[member_id]
            return
        if before is None:
            before = ConsumerGroupMember(member_id=member_id)
        self._forget_instance(before)
        member = record_values.with_metadata(before, record.value)
        self.members[member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def _replay_target(self, record: ConsumerGroupTargetAssignmentMemberRecord) -> None:
        if record.value is None:
            self.targets.pop(record.key.member_id, None)
        else:
            target = record_values.partitions_of(record.value.topic_partitions)
            self.targets[record.key.member_id] = target

    def _replay_current(self, record: ConsumerGroupCurrentMemberAssignmentRecord) -> None:
        member_id = record.key.member_id
        before = self.members.get(member_id)
        if before is None:
            if record.value is None:
                return
            before = ConsumerGroupMember(member_id=member_id, member_epoch=LEAVING_EPOCH)
        self._release(before)
        member = record_values.with_current_assignment(before, record.value)
        self.members[member_id] = member
        self.owners.update(dict.fromkeys(member.held, member_id))

    def _replay_regex(self, record: ConsumerGroupRegularExpressionRecord) -> None:
        regex = record.key.regular_expression
        if record.value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = record.value

    def _release(self, member: ConsumerGroupMember) -> None:
        for partition in sorted(member.held):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def _forget_instance(self, member: ConsumerGroupMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
