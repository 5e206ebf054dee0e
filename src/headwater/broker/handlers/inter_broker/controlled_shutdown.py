"""ControlledShutdown: move leaderships away from a broker that shuts down (CS-1)."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: Broker, request: ControlledShutdownRequest, call: Call
) -> ControlledShutdownResponse | None:
    if not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    controller = broker.membership.controller
    if controller is None:
        return error_response(request, ApiError(ErrorCode.NOT_CONTROLLER, None))

    def failed(error: HeadwaterError) -> None:
        call.record_error(error.code)
        call.answer(error_response(request, ApiError(error.code, None)))

    controller.controlled_shutdown(request, then=call.answer, on_error=failed)
    return None


def error_response(_: ControlledShutdownRequest, error: ApiError) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=error.code)
