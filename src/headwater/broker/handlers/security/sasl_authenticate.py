"""SaslAuthenticate on a connection that does not authenticate (`sasl_handshake`)."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(_: Broker, request: SaslAuthenticateRequest, __: Call) -> SaslAuthenticateResponse:
    words = "SaslAuthenticate request received after successful authentication"
    return error_response(request, ApiError(ErrorCode.ILLEGAL_SASL_STATE, words))


def error_response(_: SaslAuthenticateRequest, error: ApiError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error.code, error_message=error.reason)
