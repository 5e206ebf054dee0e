"""Heartbeat: keep a member of a classic group alive and report rebalances."""

from headwater.broker.handlers.groups.group_requests import handle_member_request
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.older_versions import Message


def handle(broker: Broker, request: HeartbeatRequest, call: Call) -> Message | None:
    return handle_member_request(broker, call, request, request.group_id, _error_result)


def error_response(_: HeartbeatRequest, error: ApiError) -> HeartbeatResponse:
    return _error_result(error.code)


def _error_result(error: ErrorCode) -> HeartbeatResponse:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # As in Kafka 4.1: while the group is loading, the member may be valid, so there is no
        # error.
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=error)
