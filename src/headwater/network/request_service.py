"""What this room and the one that serves requests agree on.

Each whole frame is handed to `Service.serve` with the slot of its answer. What a reader would get
wrong:

- The frame's bytes lie in the connection's one receive buffer, without a copy. They are valid
  until `serve` returns, when the frame is released. An append within `serve` needs no copy; whoever
  keeps bytes longer must copy them, and whoever answers with them keeps them. A slice of the frame
  is not released with it, and would silently become another request.
- Answers may come at once or later and in any order; they leave in the order of requests.
- A slot outlives the frame, and may outlive its connection. An answer that comes too late is
  dropped, and what it holds is released.

All of it is for the loop's thread only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.common.principal import Requester
from headwater.network.send_queue import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAddress:
    """Which connection this is, in words for logs and rules."""

    listener: str
    peer_host: str
    peer_port: int

    def __str__(self) -> str:
        host = f"[{self.peer_host}]" if ":" in self.peer_host else self.peer_host
        return f"{host}:{self.peer_port} on {self.listener}"


class ServedConnection(Protocol):
    """What a service may know of a connection, and do with it."""

    requester: Requester
    """Who is at the other end; whoever has them log in replaces it."""

    @property
    def address(self) -> ClientAddress: ...

    @property
    def is_closed(self) -> bool: ...

    def mute(self, until_ms: int) -> None:
        """Serve and read nothing before that time. Answers still leave.

        Who is muted already stays so for the longer of both times.
        """

    def unmute(self, now_ms: int) -> None:
        """Serve again, if the time is over."""

    def close(self) -> None:
        """End it now, whatever is under way. May be called again."""

    def note_answer(self, slot: "ReplySlot") -> None:
        """For the slot: it has been answered."""

    def note_hold(self, slot: "ReplySlot") -> None:
        """For the slot: nothing is to be served beside it."""

    def note_steps(self, slot: "ReplySlot", steps: Iterator[None], size_bytes: int) -> None:
        """For the slot: its answer takes long, and these steps lead to it."""


class GuardedConnection(ServedConnection, Protocol):
    """What somebody may do besides who stands between a connection and the service of all."""

    def guard(self, service: "Service", *, frame_limit_bytes: int) -> None:
        """Have another service serve it from now on, and frames up to that size only."""

    def leave(self) -> None:
        """Take no further request; close when all answers are sent."""


class ReplySlot:
    """The place of one request's answer. To be answered exactly once, by `reply` or `finish`."""

    __slots__ = ("_parts", "connection")

    def __init__(self, connection: "ServedConnection") -> None:
        self.connection = connection
        self._parts: Sequence[Part] | None = None

    @property
    def parts(self) -> Sequence[Part] | None:
        """What the answer consists of; None until there is one."""
        return self._parts

    def reply(self, parts: Sequence[Part]) -> None:
        """Answer with these parts, which are the whole frame, its size field included.

        Ranges are released when they are sent, or dropped because the connection is gone.
        """
        assert self._parts is None, "a request is answered once"
        self._parts = parts
        self.connection.note_answer(self)

    def finish(self) -> None:
        """Answer with nothing, as a Produce with acks=0 wants it."""
        self.reply(())

    def hold(self) -> None:
        """Serve no further request of this connection until this one is answered."""
        self.connection.note_hold(self)

    def work(self, steps: Iterator[None], size_bytes: int = 0) -> None:
        """Take these steps one by one, as the connection gets its share of the loop's time.

        For a request that takes many milliseconds: other connections are served between its steps,
        and no further request of this one until it is answered. The steps end when there are no
        more of them, or with the connection; the last one may hand over to others. `size_bytes` is
        the size of the request: a few large ones are worked on at a time, the others wait before
        the first step.
        """
        self.connection.note_steps(self, steps, size_bytes)


Guard = Callable[[GuardedConnection], None]
"""Puts somebody between a new connection and the service of all, by the connection's `guard`."""


class Service(Protocol):
    """Whom the connections of a server work for: the broker's dispatch."""

    def serve(self, slot: ReplySlot, frame: memoryview) -> None:
        """Take one request.

        `ProtocolError` closes its connection. So does any other exception, but that is a mistake
        of ours, and `failed` hears of it first.
        """

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        """`serve` raised what it must not raise, or its answer could not be sent as it was."""

    def closed(self, connection: ServedConnection) -> None:
        """The connection is gone, and answers to its requests will be dropped. Called once."""
