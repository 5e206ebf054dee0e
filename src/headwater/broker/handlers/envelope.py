"""Envelope: a client's request that another broker got, for the controller to answer (KIP-590).

It is served as if the client had asked here. What a reader would get wrong: this broker may cease
to be the controller while the request waits. Then nothing of its answer is told, and the other
broker looks for the next controller.
"""

from ipaddress import ip_address
from time import perf_counter_ns

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.dispatch import answer
from headwater.broker.inward_call import InwardConnection
from headwater.broker.routes import DECIDED
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.model.failures import ProtocolError
from headwater.net.service import Address, ReplySlot
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.headers import read_request_header
from headwater.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headwater.wire.translation import read_request


class _Noted:
    """`headwater.broker.call.Account` of what is in the envelope."""

    def __init__(self) -> None:
        self.codes: dict[ErrorCode, None] = {}

    def answered(self, version: int, started_ns: int) -> None:
        """Counted with the envelope."""

    def failed(self, code: ErrorCode) -> None:
        self.codes[code] = None


def handle(broker: Broker, request: EnvelopeRequest, call: Call) -> EnvelopeResponse | None:
    if not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if broker.standing.controller is None:
        return refuse(request, Refusal(ErrorCode.NOT_CONTROLLER, None))
    noted = _Noted()

    def answered(content: bytes) -> None:
        if ErrorCode.NOT_CONTROLLER in noted.codes:
            call.answer(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
        else:
            call.answer(EnvelopeResponse(response_data=content))

    address = Address(listener=call.listener, peer_host=_host(request), peer_port=0)
    connection = InwardConnection(
        address, answered=answered, is_gone=lambda: call.is_gone, cut=call.cut
    )
    frame = memoryview(request.request_data)
    header = read_request_header(frame)
    if header.api.key not in DECIDED:
        return refuse(request, Refusal(ErrorCode.INVALID_REQUEST, None))
    inner = Call(header, ReplySlot(connection), noted, perf_counter_ns())
    asked = read_request(header.api.key, header.version, frame[header.body_position :])
    response = answer(broker, inner, asked)
    if response is not None:
        inner.answer(response)
    return None


def refuse(_: EnvelopeRequest, refusal: Refusal) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=refusal.code)


def _host(request: EnvelopeRequest) -> str:
    try:
        return str(ip_address(request.client_host_address))
    except ValueError as error:
        raise ProtocolError("an envelope without its client's address") from error
