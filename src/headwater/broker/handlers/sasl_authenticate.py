"""SaslAuthenticate of somebody who is not in a login (see `sasl_handshake`)."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(_: Broker, request: SaslAuthenticateRequest, __: Call) -> SaslAuthenticateResponse:
    words = "SaslAuthenticate request received after successful authentication"
    return refuse(request, Refusal(ErrorCode.ILLEGAL_SASL_STATE, words))


def refuse(_: SaslAuthenticateRequest, refusal: Refusal) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=refusal.code, error_message=refusal.reason)
