"""ConsumerGroupHeartbeat: all that a member of the new protocol ever says (NG-1)."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import ask_member, may_group, serves_consumer_groups
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation
from headwater.wire.lifting import Message
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(broker: Broker, request: ConsumerGroupHeartbeatRequest, call: Call) -> Message | None:
    if not serves_consumer_groups(broker):
        call.note_error(ErrorCode.UNSUPPORTED_VERSION)
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if may_group(broker, call, Operation.READ, request.group_id) and not all(
        broker.may_topic(call, Operation.DESCRIBE, name)
        for name in dict.fromkeys(request.subscribed_topic_names or ())
    ):
        call.note_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return ask_member(broker, call, request, request.group_id, _refused)


def refuse(_: ConsumerGroupHeartbeatRequest, refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.reason)


def _refused(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)
