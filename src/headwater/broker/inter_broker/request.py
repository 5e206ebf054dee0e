"""A request to another broker: how it is written, how its answer is read, and who waits for it."""

from dataclasses import dataclass
from typing import cast

from headwater.common.exceptions import HeadwaterError
from headwater.metadata.ports.inter_broker_client import Answered
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, response_class, write
from headwater.protocol.headers import request_frame, response_body_position
from headwater.protocol.older_versions import Message

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class InterBrokerRequest:
    """One request, by when it must be answered, and the two callbacks of which one is called."""

    request: Message
    deadline_ms: int
    then: Answered
    otherwise: Failed


class PendingResponse:
    """Sees to it that exactly one of the callbacks is called, once."""

    __slots__ = ("_is_over", "asked")

    def __init__(self, asked: InterBrokerRequest) -> None:
        self.asked = asked
        self._is_over = False

    def answer(self, response: Message) -> None:
        if not self._is_over:
            self._is_over = True
            self.asked.then(response)

    def fail(self, error: HeadwaterError) -> None:
        if not self._is_over:
            self._is_over = True
            self.asked.otherwise(error)


def request_frame_of(
    request: Message, version: int, correlation_id: int, client_id: str
) -> list[Buffer]:
    """A request as it goes out, its size field included. No request has parts of files."""
    api = APIS[request.api]
    parts = request_frame(api, version, correlation_id, client_id, write(request, version))
    return cast("list[Buffer]", parts)


def read_answer(request: Message, version: int, frame: memoryview) -> Message:
    """The response to a request, out of its frame; it has views of it. May raise ProtocolError."""
    position = response_body_position(APIS[request.api], version, frame)
    return read(response_class(request.api), version, frame[position:])
