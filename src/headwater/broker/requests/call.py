"""One request and its response.

A handler returns the response, or None if it comes later: then `answer` is called once it is known.

Note: the request's bytes are only valid until the handler returns, or until the response if it has
started steps (see `request_service`); later code must not read them.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from headwater.common.error_codes import ErrorCode
from headwater.common.principal import Principal, Requester
from headwater.network.request_service import ClientAddress, ResponseSlot
from headwater.network.send_queue import Part
from headwater.protocol import send_parts as wire_parts
from headwater.protocol.codec import Encoded, write_response
from headwater.protocol.error_counts import error_counts
from headwater.protocol.headers import SIZE_BYTES, RequestHeader, response_frame
from headwater.protocol.older_versions import Message


class CallCounters(Protocol):
    """Counts responses and errors of an API."""

    def answered(self, version: int, started_ns: int) -> None: ...

    def failed(self, code: ErrorCode) -> None: ...


class Call:
    """One request. Must be answered exactly once."""

    __slots__ = ("_counters", "_has_recorded_errors", "_slot", "_started_ns", "header")

    def __init__(
        self, header: RequestHeader, slot: ResponseSlot, counters: CallCounters, started_ns: int
    ) -> None:
        self.header = header
        self._slot = slot
        self._counters = counters
        self._started_ns = started_ns
        self._has_recorded_errors = False

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def listener(self) -> str:
        """The listener that received the request."""
        return self._slot.connection.address.listener

    @property
    def client_id(self) -> str:
        return self.header.client_id

    @property
    def requester(self) -> Requester:
        """The client's principal and host."""
        return self._slot.connection.requester

    @property
    def principal(self) -> Principal:
        return self._slot.connection.requester.principal

    @property
    def host(self) -> str:
        """The client's host."""
        return self._slot.connection.address.peer_host

    @property
    def address(self) -> ClientAddress:
        """The client's connection."""
        return self._slot.connection.address

    @property
    def is_answered(self) -> bool:
        return self._slot.parts is not None

    @property
    def is_disconnected(self) -> bool:
        """Whether the connection is closed, so that the response would be dropped."""
        return self._slot.connection.is_closed

    def answer(self, response: Message | Encoded) -> None:
        self._count_errors(response)
        self.answer_body(write_response(response, self.header.version))

    def answer_body(self, body: Sequence[wire_parts.Part]) -> None:
        """Answer with an encoded response body."""
        header = self.header
        frame = response_frame(header.api, header.version, header.correlation_id, body)
        self.answer_frame(frame)

    def complete(self, response: Message) -> Message:
        """Fill in response fields that depend on the call, such as the throttle time."""
        return response

    def run_steps(self, steps: Iterator[None], size_bytes: int = 0) -> None:
        """Run these steps as part of this request, interleaved with other connections."""
        self._slot.run_steps(steps, size_bytes)

    def answer_content(self, content: bytes) -> None:
        """Answer with a response frame from another broker, without its size field."""
        self.answer_frame((len(content).to_bytes(SIZE_BYTES, "big"), content))

    def answer_frame(self, frame: Sequence[wire_parts.Part]) -> None:
        """Answer with an encoded response frame."""
        # `protocol` and `network` each declare only what they need of a file range.
        self._slot.respond(cast("Sequence[Part]", frame))
        self._counters.answered(self.header.version, self._started_ns)

    def finish(self) -> None:
        """Complete the request without a response, as for Produce with acks=0."""
        self._slot.finish()
        self._counters.answered(self.header.version, self._started_ns)

    def hold(self) -> None:
        """Serve no other request of this connection until this one is answered."""
        self._slot.hold()

    def close_connection(self) -> None:
        """Close the connection instead of answering: the only error signal for acks=0."""
        self._slot.connection.close()

    def record_error(self, code: ErrorCode) -> None:
        """Count an error of the response.

        A handler that calls this must call it for every error; otherwise the error codes in the
        response are counted.
        """
        self._has_recorded_errors = True
        self._counters.failed(code)

    def _count_errors(self, response: Message | Encoded) -> None:
        if not self._has_recorded_errors and not isinstance(response, Encoded):
            for code in error_counts(response):
                self._counters.failed(code)

    def __str__(self) -> str:
        header = self.header
        return (
            f"{header.api.name} v{header.version} correlation_id={header.correlation_id} "
            f"client_id={header.client_id!r} from {self._slot.connection.address}"
        )
