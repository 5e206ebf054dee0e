"""ConsumerGroupDescribe: state, members and assignments of groups (KIP-848)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headwater.broker.handlers.groups.group_requests import (
    EachGroup,
    handle_each_group,
    operations_on_group,
    serves_consumer_groups,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import Operation


def handle(broker: Broker, request: ConsumerGroupDescribeRequest, call: Call) -> Message | None:
    if not serves_consumer_groups(broker):
        call.record_error(ErrorCode.UNSUPPORTED_VERSION)
        return error_response(request, ApiError(ErrorCode.UNSUPPORTED_VERSION, None))
    each = EachGroup(
        operation=Operation.DESCRIBE,
        shard_request=lambda group_ids: replace(request, group_ids=group_ids),
        results=partial(_all_described, broker, request, call),
        error_result=_error_result,
        respond=_respond,
    )
    return handle_each_group(broker, call, request.group_ids, each)


def error_response(
    request: ConsumerGroupDescribeRequest, error: ApiError
) -> ConsumerGroupDescribeResponse:
    return _respond([_error_result(group_id, error.code) for group_id in request.group_ids])


def _respond(groups: Sequence[DescribedGroup]) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


def _all_described(
    broker: Broker, request: ConsumerGroupDescribeRequest, call: Call, answer: Message
) -> Sequence[DescribedGroup]:
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    return [_described(broker, request, call, group) for group in answer.groups]


def _described(
    broker: Broker, request: ConsumerGroupDescribeRequest, call: Call, group: DescribedGroup
) -> DescribedGroup:
    if not all(
        broker.is_authorized_for_topic(call, Operation.DESCRIBE, name) for name in _topics_of(group)
    ):
        # A partial description would look complete.
        call.record_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        hidden = _error_result(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return replace(
            hidden,
            error_message="the group is subscribed to topics that the client may not describe",
        )
    if not request.include_authorized_operations or group.error_code:
        return group
    operations = operations_on_group(broker, call, group.group_id)
    return replace(group, authorized_operations=operations)


def _topics_of(group: DescribedGroup) -> dict[str, None]:
    """Return the topics of the members' current and target assignments."""
    return {
        each.topic_name: None
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }


def _error_result(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error)
