"""Interface between connections and the service that answers requests.

Each whole frame is passed to `Service.serve` with the slot for its response.

- The frame is a view of the connection's receive buffer, without a copy. It is valid until `serve`
  returns, when it is released. An append within `serve` needs no copy; code that keeps bytes
  longer, including a response that contains them, must copy them. Note: a slice of the frame is not
  released with it, and would silently turn into another request.
- If `serve` starts steps (`run_steps`), nothing is received until the request is answered, so
  slices of the frame stay valid until then.
- Responses may come at once or later and in any order; they are sent in the order of requests.
- A slot outlives the frame, and may outlive its connection. A response that comes too late is
  dropped, and the file ranges in it are released.

Everything here is only for the loop's thread.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.common.principal import Requester
from headwater.network.send_queue import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAddress:
    """Identifies a connection, for logs and authorization."""

    listener: str
    peer_host: str
    peer_port: int

    def __str__(self) -> str:
        host = f"[{self.peer_host}]" if ":" in self.peer_host else self.peer_host
        return f"{host}:{self.peer_port} on {self.listener}"


class ServedConnection(Protocol):
    """A connection, as a service sees it."""

    requester: Requester
    """Principal and host of the client; set by authentication."""

    @property
    def address(self) -> ClientAddress: ...

    @property
    def is_closed(self) -> bool: ...

    def mute(self, until_ms: int) -> None:
        """Serve and read nothing before that time. Responses are still sent.

        If it is muted already, the later time counts.
        """

    def unmute(self, now_ms: int) -> None:
        """Serve again, if the time has passed."""

    def close(self) -> None:
        """Close the connection now. Idempotent."""

    def on_response(self, slot: "ResponseSlot") -> None:
        """Called by the slot: it has a response."""

    def on_hold(self, slot: "ResponseSlot") -> None:
        """Called by the slot: serve no other request until it has a response."""

    def on_steps(self, slot: "ResponseSlot", steps: Iterator[None], size_bytes: int) -> None:
        """Called by the slot: its response needs these steps."""


class AuthenticatingConnection(ServedConnection, Protocol):
    """A connection, as an authenticator sees it."""

    def set_service(self, service: "Service", *, frame_limit_bytes: int) -> None:
        """Let another service serve this connection, with this limit of the frame size."""

    def drain(self) -> None:
        """Accept no further requests; close when all responses are sent."""


class ResponseSlot:
    """The slot for one response, answered exactly once by `respond` or `finish`."""

    __slots__ = ("_parts", "connection")

    def __init__(self, connection: "ServedConnection") -> None:
        self.connection = connection
        self._parts: Sequence[Part] | None = None

    @property
    def parts(self) -> Sequence[Part] | None:
        """The response; None until there is one."""
        return self._parts

    def respond(self, parts: Sequence[Part]) -> None:
        """Answer with these parts of a whole frame, including its size field.

        File ranges are released when they are sent, or dropped because the connection is closed.
        """
        assert self._parts is None, "a request is answered once"
        self._parts = parts
        self.connection.on_response(self)

    def finish(self) -> None:
        """Answer with nothing, as for Produce with acks=0."""
        self.respond(())

    def hold(self) -> None:
        """Serve no further request of this connection until this one is answered."""
        self.connection.on_hold(self)

    def run_steps(self, steps: Iterator[None], size_bytes: int = 0) -> None:
        """Run these steps, as the connection gets its share of the loop's time.

        For a request that takes many milliseconds: other connections are served between its steps,
        and no further request of this one until it is answered. The steps end when they are
        exhausted, or with the connection; the last one may start others. `size_bytes` is the size
        of the request: only a few large ones are processed at a time, others wait before their
        first step.
        """
        self.connection.on_steps(self, steps, size_bytes)


AuthenticatorFactory = Callable[[AuthenticatingConnection], None]
"""Installs an authenticator on a new connection, by the connection's `set_service`."""


class Service(Protocol):
    """Answers the requests of a server's connections: the broker's dispatch."""

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:
        """Serve one request.

        `ProtocolError` closes its connection. So does any other exception, but that is a bug, and
        `failed` is called first.
        """

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        """`serve` raised an unexpected exception, or its response could not be sent."""

    def closed(self, connection: ServedConnection) -> None:
        """The connection is closed, and its responses will be dropped. Called once."""
