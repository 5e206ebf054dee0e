"""JoinGroup: join a classic group or its next generation.

As in Kafka 4.1, error responses have no members or protocols. Versions before 7 cannot encode a
null protocol name and get an empty one.
"""

from functools import partial
from typing import Final

from headwater.broker.handlers.groups.group_requests import handle_member_request
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headwater.protocol.older_versions import Message

_NAMELESS_PROTOCOL_SINCE: Final = 7


def handle(broker: Broker, request: JoinGroupRequest, call: Call) -> Message | None:
    return handle_member_request(
        broker, call, request, request.group_id, partial(_error_result, call.version)
    )


def error_response(_: JoinGroupRequest, error: ApiError) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error.code)


def _error_result(version: int, error: ErrorCode) -> JoinGroupResponse:
    nameless = version >= _NAMELESS_PROTOCOL_SINCE
    return JoinGroupResponse(error_code=error, protocol_name=None if nameless else "")
