"""A request to another broker: how it is written, how its answer is read, and who waits for it."""

from dataclasses import dataclass
from typing import cast

from headwater.cluster.colleagues import Answered
from headwater.cluster.store import Failed
from headwater.model.failures import HeadwaterError
from headwater.wire.api_table import APIS
from headwater.wire.headers import request_frame, response_body_position
from headwater.wire.lifting import Message
from headwater.wire.translation import read, response_shape, write

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request, by when it must be answered, and the two callbacks of which one is called."""

    request: Message
    deadline_ms: int
    then: Answered
    otherwise: Failed


class Unanswered:
    """Sees to it that exactly one of the callbacks is called, once."""

    __slots__ = ("_is_over", "asked")

    def __init__(self, asked: Outgoing) -> None:
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


def written_frame(
    request: Message, version: int, correlation_id: int, client_id: str
) -> list[Buffer]:
    """A request as it goes out, its size field included. No request has parts of files."""
    api = APIS[request.api]
    parts = request_frame(api, version, correlation_id, client_id, write(request, version))
    return cast("list[Buffer]", parts)


def read_answer(request: Message, version: int, frame: memoryview) -> Message:
    """The response to a request, out of its frame; it has views of it. May raise ProtocolError."""
    position = response_body_position(APIS[request.api], version, frame)
    return read(response_shape(request.api), version, frame[position:])
