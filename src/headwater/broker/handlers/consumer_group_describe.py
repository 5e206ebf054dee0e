"""ConsumerGroupDescribe: state, members and assignments of groups of the new protocol."""

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
from headwater.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse | None:
    if not request.group_ids:
        return ConsumerGroupDescribeResponse()

    def done(groups: Sequence[DescribedGroup]) -> None:
        call.answer(ConsumerGroupDescribeResponse(groups=tuple(groups)))

    gathering = Gathering(len(request.group_ids), done)
    for index, group_id in enumerate(request.group_ids):
        put = partial(gathering.put, index)
        if may_group(broker, call, Operation.DESCRIBE, group_id):
            one = replace(request, group_ids=(group_id,))
            broker.groups.ask(group_id, one, call, _putting(call, group_id, put))
        else:
            call.note_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            put(_refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return None


def refuse(
    request: ConsumerGroupDescribeRequest, refusal: Refusal
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=tuple(_refused(group_id, refusal.code) for group_id in request.group_ids)
    )


def _putting(
    call: Call, group_id: str, put: Callable[[DescribedGroup], None]
) -> Callable[[Outcome], None]:
    def gathered(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.note_error(outcome)
            put(_refused(group_id, outcome))
        else:
            assert isinstance(outcome, ConsumerGroupDescribeResponse)
            put(outcome.groups[0])

    return gathered


def _refused(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error)
