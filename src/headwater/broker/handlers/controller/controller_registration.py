"""ControllerRegistration: register a node of the quorum (KIP-919)."""

from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    services: ControllerServices, request: ControllerRegistrationRequest, call: Call
) -> ControllerRegistrationResponse | None:
    if not services.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def failed(error: HeadwaterError) -> None:
        call.record_error(error.code)
        call.answer(error_response(request, ApiError(error.code, str(error))))

    services.active_controller.register_controller(
        request, then=lambda _: call.answer(ControllerRegistrationResponse()), on_error=failed
    )
    return None


def error_response(
    _: ControllerRegistrationRequest, error: ApiError
) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(error_code=error.code, error_message=error.reason)
