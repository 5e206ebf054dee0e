"""Requests that only the controller answers, on the broker that is it.

What a reader would get wrong: this broker may cease to be the controller while such a request
waits. Then nothing of its answer is told, and somebody else looks for the next controller: this
broker for a client of its own, else the broker that had put the request into an envelope. Java's
admin would ask again by itself, but librdkafka's tells its user of NOT_CONTROLLER.
"""

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.broker.requests.internal_call import InternalConnection
from headwater.broker.requests.request_slices import answer_in_steps
from headwater.common.error_codes import ErrorCode
from headwater.common.principal import Requester
from headwater.network.request_service import ClientAddress, ReplySlot
from headwater.protocol.headers import RequestHeader
from headwater.protocol.older_versions import Message

Decided = Callable[[bytes, Sequence[ErrorCode]], None]
"""Gets the answer without its size field, and the errors in it."""

_DISPLACED: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION})
"""Of the latter nobody knows whether the store has taken it; then a client may hear that its topic
exists, as when a connection to the controller breaks."""


class _Noted:
    """`headwater.broker.requests.call.Account` that only remembers errors."""

    def __init__(self) -> None:
        self.codes: dict[ErrorCode, None] = {}

    def answered(self, version: int, started_ns: int) -> None:
        """Counted where the request came in."""

    def failed(self, code: ErrorCode) -> None:
        self.codes[code] = None


def handle_as_controller(
    broker: Broker,
    call: Call,
    header: RequestHeader,
    request: Message,
    *,
    address: ClientAddress,
    requester: Requester,
    decided: Decided,
    displaced: Callable[[], None],
) -> None:
    """Have a request answered here, for the one who waits at `call`."""
    noted = _Noted()

    def answered(content: bytes) -> None:
        if not _DISPLACED.isdisjoint(noted.codes):
            displaced()
        else:
            decided(content, tuple(noted.codes))

    connection = InternalConnection(
        address,
        requester,
        answered=answered,
        is_gone=lambda: call.is_gone,
        cut=call.cut,
        soon=broker.soon,
    )
    inner = Call(header, ReplySlot(connection), noted, perf_counter_ns())
    inner.work(answer_in_steps(broker, inner, request))


def handle_or_forward(broker: Broker, call: Call, request: Message, frame: memoryview) -> None:
    """Have a client's request answered, by this broker as long as it is the controller."""
    # The frame's bytes are gone when the handler returns, and it may have to travel later.
    kept = bytes(frame)
    controller_access = broker.controller_access

    def forward() -> None:
        controller_access.forward(call, request, kept)

    def decided(content: bytes, codes: Sequence[ErrorCode]) -> None:
        for code in codes:
            call.note_error(code)
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
            decided=decided,
            displaced=forward,
        )
