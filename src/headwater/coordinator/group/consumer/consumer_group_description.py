"""Describe a consumer group for ConsumerGroupDescribe.

Topics are stored by id and described by name; deleted topics have no name and are left out.
"""

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.assignors.assignor_spec import Partitions
from headwater.coordinator.group.consumer.consumer_group import ConsumerGroup
from headwater.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from headwater.coordinator.group.consumer.consumer_group_record_values import by_topic
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe(group: ConsumerGroup, image: ClusterImage) -> DescribedGroup:
    state = group.state
    if state.epoch == 0:
        return not_found(group.group_id)
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=state.epoch,
        assignment_epoch=state.assignment_epoch,
        assignor_name=group.assignor_name,
        members=tuple(
            _member(member, state.target_of(member.member_id), image)
            for member in state.members.values()
        ),
    )


def not_found(group_id: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"consumer group {group_id!r} does not exist",
        group_id=group_id,
    )


def _member(member: ConsumerGroupMember, target: Partitions, image: ClusterImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_named(member.assigned, image),
        target_assignment=_named(target, image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _named(partitions: Partitions, image: ClusterImage) -> Assignment:
    named = []
    for each in by_topic(partitions):
        topic = image.topic_by_id(each.topic_id)
        if topic is not None:
            named.append(
                TopicPartitions(
                    topic_id=each.topic_id, topic_name=topic.name, partitions=each.partitions
                )
            )
    return Assignment(topic_partitions=tuple(named))
