"""SyncGroup: distribute the assignments of a classic group's generation."""

from headwater.broker.handlers.groups.group_requests import handle_member_request
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headwater.protocol.older_versions import Message


def handle(broker: Broker, request: SyncGroupRequest, call: Call) -> Message | None:
    return handle_member_request(broker, call, request, request.group_id, _error_result)


def error_response(_: SyncGroupRequest, error: ApiError) -> SyncGroupResponse:
    return _error_result(error.code)


def _error_result(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
