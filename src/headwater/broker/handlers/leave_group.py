"""LeaveGroup: members of a classic group go, of their own or by an admin's will."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import ask_member
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.lifting import Message
from headwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(broker: Broker, request: LeaveGroupRequest, call: Call) -> Message | None:
    return ask_member(broker, call, request, request.group_id, _refused)


def refuse(_: LeaveGroupRequest, refusal: Refusal) -> LeaveGroupResponse:
    return _refused(refusal.code)


def _refused(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)
