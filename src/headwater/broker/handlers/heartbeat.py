"""Heartbeat: a member of a classic group is alive, and hears whether a rebalance has begun."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import ask_member
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.lifting import Message
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(broker: Broker, request: HeartbeatRequest, call: Call) -> Message | None:
    return ask_member(broker, call, request, request.group_id, _refused)


def refuse(_: HeartbeatRequest, refusal: Refusal) -> HeartbeatResponse:
    return _refused(refusal.code)


def _refused(error: ErrorCode) -> HeartbeatResponse:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # Kafka does this (4.1): nobody knows yet whether the member is one, so it may stay.
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=error)
