"""DescribeGroups: state, members and assignments of classic groups (GR-16)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headwater.broker.handlers.groups.group_requests import (
    EachGroup,
    handle_each_group,
    operations_on_group,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import Operation


def handle(broker: Broker, request: DescribeGroupsRequest, call: Call) -> Message | None:
    each = EachGroup(
        operation=Operation.DESCRIBE,
        shard_request=lambda group_ids: replace(request, groups=group_ids),
        results=partial(_described, broker, request, call),
        error_result=_error_result,
        respond=_respond,
    )
    return handle_each_group(broker, call, request.groups, each)


def error_response(request: DescribeGroupsRequest, error: ApiError) -> DescribeGroupsResponse:
    return _respond([_error_result(group_id, error.code) for group_id in request.groups])


def _respond(groups: Sequence[DescribedGroup]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=tuple(groups))


def _described(
    broker: Broker, request: DescribeGroupsRequest, call: Call, answer: Message
) -> Sequence[DescribedGroup]:
    assert isinstance(answer, DescribeGroupsResponse)
    if not request.include_authorized_operations:
        return answer.groups
    return [
        group
        if group.error_code
        else replace(group, authorized_operations=operations_on_group(broker, call, group.group_id))
        for group in answer.groups
    ]


def _error_result(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error)
