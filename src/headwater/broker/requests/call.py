"""One request on its way to its answer.

A handler returns its answer, or None when it will come later: then `answer` is called from
wherever it becomes known. What a reader would get wrong: the request's bytes are gone when the
handler returns (see `request_service`), so whatever comes later must not read them.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from headwater.common.error_codes import ErrorCode
from headwater.common.principal import Principal, Requester
from headwater.network.request_service import ClientAddress, ReplySlot
from headwater.network.send_queue import Part
from headwater.protocol import send_parts as wire_parts
from headwater.protocol.codec import Encoded, write_response
from headwater.protocol.error_counts import error_counts
from headwater.protocol.headers import SIZE_BYTES, RequestHeader, response_frame
from headwater.protocol.older_versions import Message


class Account(Protocol):
    """Who keeps count of requests."""

    def answered(self, version: int, started_ns: int) -> None: ...

    def failed(self, code: ErrorCode) -> None: ...


class Call:
    """See the module. Answered exactly once."""

    __slots__ = ("_account", "_has_noted", "_slot", "_started_ns", "header")

    def __init__(
        self, header: RequestHeader, slot: ReplySlot, account: Account, started_ns: int
    ) -> None:
        self.header = header
        self._slot = slot
        self._account = account
        self._started_ns = started_ns
        self._has_noted = False

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def listener(self) -> str:
        """Where the request came in."""
        return self._slot.connection.address.listener

    @property
    def client_id(self) -> str:
        return self.header.client_id

    @property
    def requester(self) -> Requester:
        """Who asks, and from where."""
        return self._slot.connection.requester

    @property
    def principal(self) -> Principal:
        return self._slot.connection.requester.principal

    @property
    def host(self) -> str:
        """Where the request came from."""
        return self._slot.connection.address.peer_host

    @property
    def address(self) -> ClientAddress:
        """Which connection the request came by."""
        return self._slot.connection.address

    @property
    def is_answered(self) -> bool:
        return self._slot.parts is not None

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._slot.connection.is_closed

    def answer(self, response: Message | Encoded) -> None:
        self._count_errors(response)
        self.answer_body(write_response(response, self.header.version))

    def answer_body(self, body: Sequence[wire_parts.Part]) -> None:
        """Answer with a response that is written already, but for its header."""
        header = self.header
        frame = response_frame(header.api, header.version, header.correlation_id, body)
        self.answer_frame(frame)

    def complete(self, response: Message) -> Message:
        """The response with what only the call knows of it, to be written by the caller."""
        return response

    def work(self, steps: Iterator[None], size_bytes: int = 0) -> None:
        """Take these steps towards the answer as the connection gets its share of time."""
        self._slot.work(steps, size_bytes)

    def answer_content(self, content: bytes) -> None:
        """Answer with a frame that another broker has written; its size field is missing."""
        self.answer_frame((len(content).to_bytes(SIZE_BYTES, "big"), content))

    def answer_frame(self, frame: Sequence[wire_parts.Part]) -> None:
        """Answer with the parts of a frame that is written already."""
        # The rooms below know of a range of a file only what each needs of it.
        self._slot.reply(cast("Sequence[Part]", frame))
        self._account.answered(self.header.version, self._started_ns)

    def finish(self) -> None:
        """There is no answer to this request, as to a Produce with acks=0."""
        self._slot.finish()
        self._account.answered(self.header.version, self._started_ns)

    def hold(self) -> None:
        """Nothing else of this connection is served until the answer."""
        self._slot.hold()

    def cut(self) -> None:
        """Close the connection instead of answering: the only way to tell an acks=0 producer."""
        self._slot.connection.close()

    def note_error(self, code: ErrorCode) -> None:
        """For the books: something in the answer was an error, or the request as a whole was.

        Whoever notes errors notes all of them; else those are counted that the answer tells.
        """
        self._has_noted = True
        self._account.failed(code)

    def _count_errors(self, response: Message | Encoded) -> None:
        if not self._has_noted and not isinstance(response, Encoded):
            for code in error_counts(response):
                self._account.failed(code)

    def __str__(self) -> str:
        header = self.header
        return (
            f"{header.api.name} v{header.version} number {header.correlation_id} "
            f"of {header.client_id!r} from {self._slot.connection.address}"
        )
