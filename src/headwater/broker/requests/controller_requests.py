"""Serve requests of the controller, or forward them.

Note: this broker may cease to be controller while a request waits. Its result is then discarded,
and the request goes to the next controller: this broker forwards it for its own clients; for a
request in an Envelope, the broker that sent the Envelope does. Java's admin client would retry on
NOT_CONTROLLER by itself, but librdkafka's reports it to the user.
"""

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.broker.requests.internal_call import InternalConnection
from headwater.broker.requests.request_slices import answer_in_steps
from headwater.common.error_codes import ErrorCode
from headwater.common.principal import Requester
from headwater.network.request_service import ClientAddress, ResponseSlot
from headwater.protocol.headers import RequestHeader
from headwater.protocol.older_versions import Message

OnResponse = Callable[[bytes, Sequence[ErrorCode]], None]
"""Gets the response without its size field, and the errors in it."""

_NOT_CONTROLLER_ERRORS: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION})
"""Errors after which the next controller gets the request. With NETWORK_EXCEPTION the metadata
store may have applied the change, so that a client may get TOPIC_ALREADY_EXISTS, as after a
broken connection to the controller.
"""


class _ErrorCollector:
    """`headwater.broker.requests.call.Account` that only collects errors."""

    def __init__(self) -> None:
        self.codes: dict[ErrorCode, None] = {}

    def answered(self, version: int, started_ns: int) -> None:
        """Counted by the call that received the request."""

    def failed(self, code: ErrorCode) -> None:
        self.codes[code] = None


def handle_as_controller(
    broker: ControllerContext,
    call: Call,
    header: RequestHeader,
    request: Message,
    *,
    address: ClientAddress,
    requester: Requester,
    on_response: OnResponse,
    on_not_controller: Callable[[], None],
) -> None:
    """Serve a request on this controller, on behalf of `call`."""
    errors = _ErrorCollector()

    def answered(content: bytes) -> None:
        if not _NOT_CONTROLLER_ERRORS.isdisjoint(errors.codes):
            on_not_controller()
        else:
            on_response(content, tuple(errors.codes))

    connection = InternalConnection(
        address,
        requester,
        answered=answered,
        is_disconnected=lambda: call.is_disconnected,
        cut=call.close_connection,
        call_soon=broker.call_soon,
    )
    inner = Call(header, ResponseSlot(connection), errors, perf_counter_ns())
    inner.run_steps(answer_in_steps(broker, inner, request))


def handle_or_forward(broker: Broker, call: Call, request: Message, frame: memoryview) -> None:
    """Serve a request here if this broker is the controller, else forward it."""
    # The frame is only valid until the handler returns, and it may be forwarded later.
    frame_copy = bytes(frame)
    controller_access = broker.controller_access

    def forward() -> None:
        controller_access.forward(call, request, frame_copy)

    def on_response(content: bytes, codes: Sequence[ErrorCode]) -> None:
        for code in codes:
            call.record_error(code)
        call.answer_content(content)

    if controller_access.controller is None:
        forward()
    else:
        handle_as_controller(
            broker,
            call,
            call.header,
            request,
            address=call.address,
            requester=call.requester,
            on_response=on_response,
            on_not_controller=forward,
        )
