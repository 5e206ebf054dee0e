"""DescribeGroups: state, members and assignments of classic groups (GR-16)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import Gathering, may_group
from headwater.cluster.decision import Refusal
from headwater.coordinator.hosted_shard import Outcome
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation
from headwater.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(
    broker: Broker, request: DescribeGroupsRequest, call: Call
) -> DescribeGroupsResponse | None:
    if not request.groups:
        return DescribeGroupsResponse()

    def done(groups: Sequence[DescribedGroup]) -> None:
        call.answer(DescribeGroupsResponse(groups=tuple(groups)))

    gathering = Gathering(len(request.groups), done)
    for index, group_id in enumerate(request.groups):
        put = partial(gathering.put, index)
        if may_group(broker, call, Operation.DESCRIBE, group_id):
            one = replace(request, groups=(group_id,))
            broker.groups.ask(group_id, one, call, _putting(call, group_id, put))
        else:
            call.note_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            put(_refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return None


def refuse(request: DescribeGroupsRequest, refusal: Refusal) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=tuple(_refused(group_id, refusal.code) for group_id in request.groups)
    )


def _putting(
    call: Call, group_id: str, put: Callable[[DescribedGroup], None]
) -> Callable[[Outcome], None]:
    def gathered(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.note_error(outcome)
            put(_refused(group_id, outcome))
        else:
            assert isinstance(outcome, DescribeGroupsResponse)
            put(outcome.groups[0])

    return gathered


def _refused(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error)
