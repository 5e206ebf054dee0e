"""SaslHandshake of somebody who has no login to begin: on a listener without SASL, or after one.

A login itself is taken by `headwater.broker.sasl_gate`.
"""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_: Broker, request: SaslHandshakeRequest, __: Call) -> SaslHandshakeResponse:
    return refuse(request, Refusal(ErrorCode.ILLEGAL_SASL_STATE, None))


def refuse(_: SaslHandshakeRequest, refusal: Refusal) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=refusal.code)
