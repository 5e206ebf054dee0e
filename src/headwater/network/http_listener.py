"""A small HTTP server for metrics and health checks, on the broker's own loop.

One request per connection, and only GET.

Note: a response is generated while it is sent, one piece per iteration of the loop. The metrics of
ten thousand partitions are megabytes of text, and generating them in one go would delay every
client. So a response is an iterator of pieces, sent with chunked encoding, whose end tells the
client that nothing was cut off.

The owner must call `sweep` about once a second, or slow connections are never closed.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.common.exceptions import ConnectionLost
from headwater.network.acceptor import Acceptor, listening_socket
from headwater.network.endpoint import Endpoint
from headwater.network.event_loop import Loop
from headwater.network.limits.fair_queue import FairQueue
from headwater.network.limits.idle_expiry import CoarseClock
from headwater.network.network_settings import NetworkSettings
from headwater.network.transport_layer import PlaintextTransportLayer

CONNECTIONS_MAX = 16
HEAD_BYTES_MAX = 8_192
REQUEST_TIMEOUT_MS = 10_000

_END_OF_HEAD = b"\r\n\r\n"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The response to a GET; no piece may be empty."""

    content_type: str
    pieces: Iterator[bytes]
    status: int = 200


# Takes the requested path without its query; None means not found.
HttpHandler = Callable[[str], HttpResponse | None]


class HttpListener:
    """Binds in the constructor, serves between `start` and `close`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        handler: HttpHandler,
        *,
        now_ms: int,
    ) -> None:
        self._loop = loop
        self._handler = handler
        self._clock = CoarseClock(now_ms)
        self._connections: dict[_HttpConnection, None] = {}
        listening = listening_socket(endpoint, NetworkSettings(), both_families=True)
        self._listener = Acceptor(
            endpoint,
            listening,
            loop,
            fair_queue=FairQueue(loop),
            may_accept=lambda: len(self._connections) < CONNECTIONS_MAX,
            on_accepted=self._on_accepted,
        )

    @property
    def endpoint(self) -> Endpoint:
        """The bound endpoint, with the actual port."""
        return self._listener.endpoint

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def start(self) -> None:
        self._listener.start()

    def sweep(self, now_ms: int) -> None:
        """Close slow connections, and resume accepting after a pause."""
        self._clock.now_ms = now_ms
        for connection in list(self._connections):
            if now_ms >= connection.deadline_ms:
                connection.close()
        self._listener.sweep()

    def close(self) -> None:
        """Close everything now. Idempotent."""
        self._listener.close()
        for connection in list(self._connections):
            connection.close()

    def _on_accepted(self, accepted: socket.socket, _host: str, _port: int) -> None:
        connection = _HttpConnection(
            PlaintextTransportLayer(accepted),
            self._loop,
            self._handler,
            deadline_ms=self._clock.now_ms + REQUEST_TIMEOUT_MS,
            on_closed=lambda closed: self._connections.pop(closed, None),
        )
        self._connections[connection] = None


class _HttpConnection:
    """Reads the head of one request, sends the response, and closes."""

    __slots__ = (
        "_channel",
        "_fd",
        "_handler",
        "_head",
        "_is_closed",
        "_loop",
        "_on_closed",
        "_pieces",
        "_unsent",
        "deadline_ms",
    )

    def __init__(
        self,
        channel: PlaintextTransportLayer,
        loop: Loop,
        handler: HttpHandler,
        *,
        deadline_ms: int,
        on_closed: "Callable[[_HttpConnection], object]",
    ) -> None:
        self.deadline_ms = deadline_ms
        self._channel = channel
        self._fd = channel.fileno()
        self._loop = loop
        self._handler = handler
        self._on_closed = on_closed
        self._head = bytearray()
        self._unsent = memoryview(b"")
        self._pieces: Iterator[bytes] = iter(())
        self._is_closed = False
        loop.add_reader(self._fd, lambda: self._run_step(self._read))

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._channel.close()
        self._on_closed(self)

    def _run_step(self, step: Callable[[], None]) -> None:
        """Run one step; an error closes this connection and no other."""
        try:
            step()
        except ConnectionLost as lost:
            _log.debug("HTTP client disconnected: reason=%s", lost)
            self.close()
        except BaseException:
            # A bug, which the loop logs.
            self.close()
            raise

    def _read(self) -> None:
        room = memoryview(bytearray(HEAD_BYTES_MAX - len(self._head)))
        count = self._channel.receive_into(room)
        if count is None:
            return
        if count == 0:
            self.close()
            return
        self._head += room[:count]
        if _END_OF_HEAD in self._head:
            self._answer()
        elif len(self._head) >= HEAD_BYTES_MAX:
            self.close()

    def _answer(self) -> None:
        self._loop.remove_reader(self._fd)
        answer, may_chunk = self._find_answer()
        self._pieces = _chunks(answer.pieces) if may_chunk else answer.pieces
        self._unsent = memoryview(_head_of(answer, may_chunk=may_chunk))
        self._loop.add_writer(self._fd, lambda: self._run_step(self._write))

    def _find_answer(self) -> tuple[HttpResponse, bool]:
        line = bytes(self._head).partition(b"\r\n")[0].decode("latin-1")
        words = line.split(" ")
        if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
            return _plain(400, "not an HTTP/1.1 request"), False
        method, target, version = words
        found = self._handler(target.partition("?")[0]) if method == "GET" else None
        return found or _plain(404, "not found"), version == "HTTP/1.1"

    def _write(self) -> None:
        """Send one piece or its rest; called again when the socket is writable."""
        if not self._unsent:
            piece = next(self._pieces, None)
            if piece is None:
                self.close()
                return
            self._unsent = memoryview(piece)
        sent = self._channel.send([self._unsent], more=False)
        if sent is not None:
            self._unsent = self._unsent[sent:]


def _plain(status: int, text: str) -> HttpResponse:
    pieces = iter([f"{text}\n".encode()])
    return HttpResponse(status=status, content_type="text/plain; charset=utf-8", pieces=pieces)


def _head_of(answer: HttpResponse, *, may_chunk: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        "Connection: close",
        *(["Transfer-Encoding: chunked"] if may_chunk else []),
    ]
    return ("\r\n".join(lines)).encode() + _END_OF_HEAD


def _chunks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"
