"""SyncGroup: hand out, or wait for, the assignments of a classic group's generation."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import ask_member
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.lifting import Message
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(broker: Broker, request: SyncGroupRequest, call: Call) -> Message | None:
    return ask_member(broker, call, request, request.group_id, _refused)


def refuse(_: SyncGroupRequest, refusal: Refusal) -> SyncGroupResponse:
    return _refused(refusal.code)


def _refused(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
