"""BrokerRegistration: register a broker (KIP-631)."""

from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    services: ControllerServices, request: BrokerRegistrationRequest, call: Call
) -> BrokerRegistrationResponse | None:
    if not services.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        # A broker takes CLUSTER_AUTHORIZATION_FAILED as final, but its ACL may be unknown yet.
        is_final = not services.is_early_start
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if is_final else ErrorCode.NOT_CONTROLLER
        return error_response(request, ApiError(code, None))

    def failed(error: HeadwaterError) -> None:
        call.record_error(error.code)
        call.answer(error_response(request, ApiError(error.code, str(error))))

    services.active_controller.register_broker(request, then=call.answer, on_error=failed)
    return None


def error_response(_: BrokerRegistrationRequest, error: ApiError) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=error.code)
