"""LeaveGroup: remove members of a classic group, also for an admin client."""

from headwater.broker.handlers.groups.group_requests import handle_member_request
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headwater.protocol.older_versions import Message


def handle(broker: Broker, request: LeaveGroupRequest, call: Call) -> Message | None:
    return handle_member_request(broker, call, request, request.group_id, _error_result)


def error_response(_: LeaveGroupRequest, error: ApiError) -> LeaveGroupResponse:
    return _error_result(error.code)


def _error_result(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)
