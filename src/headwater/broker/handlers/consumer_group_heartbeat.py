"""ConsumerGroupHeartbeat: all that a member of the new protocol ever says (NG-1)."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import ask_member, serves_consumer_groups
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.lifting import Message
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(broker: Broker, request: ConsumerGroupHeartbeatRequest, call: Call) -> Message | None:
    if not serves_consumer_groups(broker):
        call.note_error(ErrorCode.UNSUPPORTED_VERSION)
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    return ask_member(broker, call, request, request.group_id, _refused)


def refuse(_: ConsumerGroupHeartbeatRequest, refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.reason)


def _refused(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)
