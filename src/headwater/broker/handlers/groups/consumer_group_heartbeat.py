"""ConsumerGroupHeartbeat: the only request of group members (KIP-848, NG-1)."""

from headwater.broker.handlers.groups.group_requests import (
    handle_member_request,
    is_authorized_for_group,
    serves_consumer_groups,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import Operation


def handle(broker: Broker, request: ConsumerGroupHeartbeatRequest, call: Call) -> Message | None:
    if not serves_consumer_groups(broker):
        call.record_error(ErrorCode.UNSUPPORTED_VERSION)
        return _error_result(ErrorCode.UNSUPPORTED_VERSION)
    if is_authorized_for_group(broker, call, Operation.READ, request.group_id) and not all(
        broker.is_authorized_for_topic(call, Operation.DESCRIBE, name)
        for name in dict.fromkeys(request.subscribed_topic_names or ())
    ):
        call.record_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _error_result(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return handle_member_request(broker, call, request, request.group_id, _error_result)


def error_response(
    _: ConsumerGroupHeartbeatRequest, error: ApiError
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.reason)


def _error_result(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)
