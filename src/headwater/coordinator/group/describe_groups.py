"""Answer ListGroups, DescribeGroups and ConsumerGroupDescribe."""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.consumer import consumer_group_description
from headwater.coordinator.group.consumer.consumer_group import ConsumerGroup
from headwater.coordinator.group.group_metadata_manager import GroupMetadataManager
from headwater.coordinator.group.simple_group import SimpleGroup
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol.messages import consumer_group_describe as consumer_describe
from headwater.protocol.messages import describe_groups as classic_describe
from headwater.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

_DEAD: Final = "Dead"
_EMPTY: Final = "Empty"
_FIRST_WITH_NOT_FOUND: Final = 6


def list_groups(request: ListGroupsRequest, groups: GroupMetadataManager) -> ListGroupsResponse:
    """Filters ignore case; an empty filter matches all."""
    states = frozenset(name.lower() for name in request.states_filter)
    types = frozenset(name.lower() for name in request.types_filter)
    return ListGroupsResponse(
        groups=tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.group_type.value,
            )
            for group in groups
            if (not states or group.state_name.lower() in states)
            and (not types or group.group_type.value in types)
        )
    )


def describe_groups(
    request: classic_describe.DescribeGroupsRequest, groups: GroupMetadataManager, version: int
) -> classic_describe.DescribeGroupsResponse:
    return classic_describe.DescribeGroupsResponse(
        groups=tuple(_described(group_id, groups, version) for group_id in request.groups)
    )


def describe_consumer_groups(
    request: consumer_describe.ConsumerGroupDescribeRequest,
    groups: GroupMetadataManager,
    image: ClusterImage,
) -> consumer_describe.ConsumerGroupDescribeResponse:
    return consumer_describe.ConsumerGroupDescribeResponse(
        groups=tuple(
            _described_consumers(group_id, groups, image) for group_id in request.group_ids
        )
    )


def _described(
    group_id: str, groups: GroupMetadataManager, version: int
) -> classic_describe.DescribedGroup:
    """Return other groups as Dead, from version 6 on as not found (GR-16)."""
    group = groups.find(group_id)
    if isinstance(group, ClassicGroup):
        return group.describe()
    if isinstance(group, SimpleGroup):
        return classic_describe.DescribedGroup(group_id=group_id, group_state=_EMPTY)
    if version < _FIRST_WITH_NOT_FOUND:
        return classic_describe.DescribedGroup(group_id=group_id, group_state=_DEAD)
    message = (
        f"group {group_id!r} is not a classic group"
        if group
        else f"group {group_id!r} does not exist"
    )
    return classic_describe.DescribedGroup(
        group_id=group_id,
        group_state=_DEAD,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=message,
    )


def _described_consumers(
    group_id: str, groups: GroupMetadataManager, image: ClusterImage
) -> consumer_describe.DescribedGroup:
    if not group_id:
        return consumer_describe.DescribedGroup(
            group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID
        )
    group = groups.find(group_id)
    if isinstance(group, ConsumerGroup):
        return consumer_group_description.describe(group, image)
    return consumer_group_description.not_found(group_id)
