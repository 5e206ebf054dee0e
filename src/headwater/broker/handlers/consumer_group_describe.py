"""ConsumerGroupDescribe: state, members and assignments of groups of the new protocol."""

from collections.abc import Sequence
from dataclasses import replace

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import EachGroup, ask_each, serves_consumer_groups
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation
from headwater.wire.lifting import Message
from headwater.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(broker: Broker, request: ConsumerGroupDescribeRequest, call: Call) -> Message | None:
    if not serves_consumer_groups(broker):
        call.note_error(ErrorCode.UNSUPPORTED_VERSION)
        return refuse(request, Refusal(ErrorCode.UNSUPPORTED_VERSION, None))
    each = EachGroup(
        operation=Operation.DESCRIBE,
        ask=lambda group_id: replace(request, group_ids=(group_id,)),
        result=_described,
        refused=_refused,
        respond=_respond,
    )
    return ask_each(broker, call, request.group_ids, each)


def refuse(
    request: ConsumerGroupDescribeRequest, refusal: Refusal
) -> ConsumerGroupDescribeResponse:
    return _respond([_refused(group_id, refusal.code) for group_id in request.group_ids])


def _respond(groups: Sequence[DescribedGroup]) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


def _described(answer: Message) -> DescribedGroup:
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    return answer.groups[0]


def _refused(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error)
