"""Envelope: serve a client's request that another broker forwarded (KIP-590).

It is served as if the client had sent it here (see
`headwater.broker.requests.controller_requests`).
"""

from ipaddress import ip_address

from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.broker.requests.controller_requests import handle_as_controller
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.common.principal import Principal, Requester
from headwater.network.request_service import ClientAddress
from headwater.protocol.codec import read_request
from headwater.protocol.headers import read_request_header
from headwater.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headwater.protocol.principal_serde import read_principal
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: EnvelopeRequest, call: Call
) -> EnvelopeResponse | None:
    if not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if not broker.is_controller:
        return error_response(request, ApiError(ErrorCode.NOT_CONTROLLER, None))
    frame = memoryview(request.request_data)
    header = read_request_header(frame)
    if header.api.key not in broker.forwarded_apis:
        return error_response(request, ApiError(ErrorCode.INVALID_REQUEST, None))
    inner_request = read_request(header.api.key, header.version, frame[header.body_position :])
    host = _host(request)
    handle_as_controller(
        broker,
        call,
        header,
        inner_request,
        address=ClientAddress(listener=call.listener, peer_host=host, peer_port=0),
        requester=Requester(_principal(request), host),
        on_response=lambda content, _: call.answer(EnvelopeResponse(response_data=content)),
        on_not_controller=lambda: call.answer(
            EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        ),
    )
    return None


def error_response(_: EnvelopeRequest, error: ApiError) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=error.code)


def _principal(request: EnvelopeRequest) -> Principal:
    if request.request_principal is None:
        raise ProtocolError("Envelope without a client principal")
    return read_principal(request.request_principal)


def _host(request: EnvelopeRequest) -> str:
    try:
        return str(ip_address(request.client_host_address))
    except ValueError as error:
        raise ProtocolError("Envelope without a client address") from error
