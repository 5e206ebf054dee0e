"""Requests to other brokers: encoding, decoding of responses, callbacks."""

from dataclasses import dataclass
from typing import cast

from headwater.common.exceptions import HeadwaterError
from headwater.metadata.ports.inter_broker_client import OnResponse
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, response_class, write
from headwater.protocol.headers import request_frame, response_body_position
from headwater.protocol.older_versions import Message

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class InterBrokerRequest:
    """A request, its deadline, and the two callbacks of which exactly one is called."""

    request: Message
    deadline_ms: int
    then: OnResponse
    on_error: Failed


class PendingResponse:
    """Makes sure that exactly one of the callbacks is called, once."""

    __slots__ = ("_is_over", "request")

    def __init__(self, request: InterBrokerRequest) -> None:
        self.request = request
        self._is_over = False

    def answer(self, response: Message) -> None:
        if not self._is_over:
            self._is_over = True
            self.request.then(response)

    def fail(self, error: HeadwaterError) -> None:
        if not self._is_over:
            self._is_over = True
            self.request.on_error(error)


def request_frame_of(
    request: Message, version: int, correlation_id: int, client_id: str
) -> list[Buffer]:
    """Encode a request with its size field. Requests have no file ranges."""
    api = APIS[request.api]
    parts = request_frame(api, version, correlation_id, client_id, write(request, version))
    return cast("list[Buffer]", parts)


def read_answer(request: Message, version: int, frame: memoryview) -> Message:
    """Decode a response, which has views of the frame. May raise ProtocolError."""
    position = response_body_position(APIS[request.api], version, frame)
    return read(response_class(request.api), version, frame[position:])
