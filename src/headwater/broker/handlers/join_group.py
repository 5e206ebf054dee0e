"""JoinGroup: become a member of a classic group, or begin its next generation."""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import ask_member
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.lifting import Message
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(broker: Broker, request: JoinGroupRequest, call: Call) -> Message | None:
    return ask_member(broker, call, request, request.group_id, partial(_refused, request))


def refuse(request: JoinGroupRequest, refusal: Refusal) -> JoinGroupResponse:
    return _refused(request, refusal.code)


def _refused(request: JoinGroupRequest, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=request.member_id)
