"""BrokerHeartbeat: keep a broker's session, fence and unfence it (KIP-631)."""

from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    services: ControllerServices, request: BrokerHeartbeatRequest, call: Call
) -> BrokerHeartbeatResponse | None:
    if not services.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def failed(error: HeadwaterError) -> None:
        call.record_error(error.code)
        call.answer(error_response(request, ApiError(error.code, str(error))))

    services.active_controller.heartbeat(request, then=call.answer, on_error=failed)
    return None


def error_response(_: BrokerHeartbeatRequest, error: ApiError) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=error.code)
