"""SaslHandshake on a connection without SASL, or after authentication.

Authentication itself is in `headwater.broker.authentication.sasl_authenticator`.
"""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_: Broker, request: SaslHandshakeRequest, __: Call) -> SaslHandshakeResponse:
    return error_response(request, ApiError(ErrorCode.ILLEGAL_SASL_STATE, None))


def error_response(_: SaslHandshakeRequest, error: ApiError) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error.code)
