"""Envelope: a client's request that another broker got, for the controller to answer (KIP-590).

It is served as if the client had asked here (see `headwater.broker.deciding`).
"""

from ipaddress import ip_address

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.deciding import decide
from headwater.broker.routes import DECIDED
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.model.failures import ProtocolError
from headwater.model.requester import Principal, Requester
from headwater.net.service import Address
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.headers import read_request_header
from headwater.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headwater.wire.principals import read_principal
from headwater.wire.translation import read_request


def handle(broker: Broker, request: EnvelopeRequest, call: Call) -> EnvelopeResponse | None:
    if not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if broker.standing.controller is None:
        return refuse(request, Refusal(ErrorCode.NOT_CONTROLLER, None))
    frame = memoryview(request.request_data)
    header = read_request_header(frame)
    if header.api.key not in DECIDED:
        return refuse(request, Refusal(ErrorCode.INVALID_REQUEST, None))
    asked = read_request(header.api.key, header.version, frame[header.body_position :])
    host = _host(request)
    decide(
        broker,
        call,
        header,
        asked,
        address=Address(listener=call.listener, peer_host=host, peer_port=0),
        requester=Requester(_principal(request), host),
        decided=lambda content, _: call.answer(EnvelopeResponse(response_data=content)),
        displaced=lambda: call.answer(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)),
    )
    return None


def refuse(_: EnvelopeRequest, refusal: Refusal) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=refusal.code)


def _principal(request: EnvelopeRequest) -> Principal:
    if request.request_principal is None:
        raise ProtocolError("an envelope without its client's principal")
    return read_principal(request.request_principal)


def _host(request: EnvelopeRequest) -> str:
    try:
        return str(ip_address(request.client_host_address))
    except ValueError as error:
        raise ProtocolError("an envelope without its client's address") from error
