"""An outgoing connection to a broker: requests out, answers back in the same order.

What a reader would get wrong: a peer is used up when it is gone. It connects once and ends once;
trying again, and when, is its owner's business. And the frame of an answer is valid only within the
callback, like the frame of a request (see `request_service`), unless `keep_frame` is asked
for there.
"""

import asyncio
import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.common.exceptions import (
    ConnectionLost,
    PeerRefused,
    ProtocolError,
    RequestTimedOut,
)
from headwater.network.event_loop import Loop
from headwater.network.receive_buffer import ReceiveBuffer
from headwater.network.send_queue import Part, SendQueue
from headwater.network.tls.tls_channel import TlsTransportLayer
from headwater.network.tls.tls_endpoints import ClientTls
from headwater.network.tls.tls_handshake import Handshake, TlsWatch
from headwater.network.transport_layer import PlaintextTransportLayer, TransportLayer

# A producer's request has a mebibyte of records, and that with all around it shall not need another
# turn: each one costs as much as sending some hundred kilobytes does.
_SENT_BYTES_PER_TURN = 1_114_112
# A large answer is received in one turn as far as it has come; but others want their turn too.
_RECEIVES_PER_TURN = 16
# Frames without an answer are in nobody's count; this bounds them.
_UNSENT_BYTES_MAX = 1_048_576

_CORRELATION_ID = struct.Struct(">i")

Then = Callable[[memoryview], None]
Otherwise = Callable[[ConnectionLost], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """Bounds of one outgoing connection, under the names that Kafka's clients give them."""

    max_in_flight_requests_per_connection: int = 5
    send_buffer_bytes: int = 131_072
    receive_buffer_bytes: int = 65_536
    # The largest answer that is taken; a fetch may be as large as its own limit and more.
    headwater_answer_max_bytes: int = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketAddress:
    """An address that needs no further look-up."""

    family: int
    address: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFlight:
    """A request that waits for its answer."""

    correlation_id: int
    deadline_ms: int
    then: Then
    otherwise: Otherwise


async def resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[SocketAddress]:
    """All addresses of a host, in the order in which to try them."""
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionLost(f"no such host: {error.strerror or error}") from error
    return [SocketAddress(family=family, address=address) for family, _, _, _, address in found]


def _new_block(size_bytes: int) -> memoryview:
    """Loaded when the first large answer comes: commands that ask little start sooner."""
    from headwater.records.kernel import new_block

    return new_block(size_bytes)


def _not_connected(code: int | None, text: str) -> ConnectionLost:
    return PeerRefused(text) if code == errno.ECONNREFUSED else ConnectionLost(text)


class Peer:
    """One connection from its connect to its end. For the loop's thread only.

    `up` is called when it is connected, unless it is lost before; `down` once, when it is lost,
    after the requests in flight have been told.
    """

    def __init__(
        self,
        loop: Loop,
        settings: PeerSettings,
        *,
        up: Callable[[], None],
        down: Callable[[ConnectionLost], None],
        tls: ClientTls | None = None,
        host: str = "",
    ) -> None:
        """With `tls`, the other end must have a certificate for `host`."""
        self._tls = tls
        self._host = host
        self._handshake: Handshake | None = None
        self._loop = loop
        self._settings = settings
        self._up = up
        self._down = down
        self._channel: TransportLayer | None = None
        self._connecting: socket.socket | None = None
        self._deadline_ms = 0
        # Whoever keeps large answers needs ever new memory, and fresh pages are dear.
        self._buffer = ReceiveBuffer(settings.headwater_answer_max_bytes, _new_block)
        self._queue = SendQueue(_SENT_BYTES_PER_TURN)
        self._in_flight: deque[_InFlight] = deque()
        self._frame: memoryview | None = None
        self._is_scheduled = False
        self._is_writing = False
        self.is_closed = False

    @property
    def is_up(self) -> bool:
        return self._channel is not None and not self.is_closed

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    @property
    def buffer_bytes(self) -> int:
        """The size of the receive buffer."""
        return self._buffer.capacity_bytes

    @property
    def may_send(self) -> bool:
        """Whether it is connected and has room for one more request."""
        return (
            self.is_up
            and len(self._in_flight) < self._settings.max_in_flight_requests_per_connection
            and self._queue.size_bytes <= _UNSENT_BYTES_MAX
        )

    def connect(self, where: SocketAddress, *, deadline_ms: int) -> None:
        """Begin to connect. A failure, even one that is known at once, goes to `down` later."""
        assert self._channel is None
        assert self._connecting is None
        self._deadline_ms = deadline_ms
        try:
            self._connecting = connecting = socket.socket(where.family, socket.SOCK_STREAM)
            connecting.setblocking(False)
            self._set_options(connecting)
            code = connecting.connect_ex(where.address)
            if code not in (0, errno.EINPROGRESS, errno.EINTR):
                raise OSError(code, os.strerror(code))
        except OSError as error:
            text = f"cannot connect to {where.address}: {error.strerror}"
            lost = _not_connected(error.errno, text)
            self._loop.call_soon(lambda: self._lose(lost))
        else:
            self._loop.add_writer(connecting.fileno(), self._on_connected)

    def adopt(self, channel: TransportLayer) -> None:
        """Use a channel that is connected already."""
        assert self._channel is None
        self._channel = channel
        self._loop.add_reader(channel.fileno(), self._on_readable)

    def ask(
        self,
        correlation_id: int,
        parts: Sequence[Part],
        *,
        deadline_ms: int,
        then: Then,
        otherwise: Otherwise,
    ) -> None:
        """Send a whole frame, its size field included. One of the two is called, once.

        To be called only when `may_send`.
        """
        assert self.may_send
        self._in_flight.append(
            _InFlight(
                correlation_id=correlation_id,
                deadline_ms=deadline_ms,
                then=then,
                otherwise=otherwise,
            )
        )
        self._put(parts)

    def tell(self, parts: Sequence[Part]) -> None:
        """Send a frame that has no answer: a Produce with acks=0."""
        assert self.may_send
        self._put(parts)

    def keep_frame(self) -> bool:
        """Leave the memory of the frame to the callback that has it; False if it must copy."""
        assert self._frame is not None, "only within the callback of an answer"
        return self._buffer.leave_behind(self._frame)

    def sweep(self, now_ms: int) -> None:
        """Time has passed. As in Kafka's clients, one late answer ends the whole connection."""
        if self._connecting is not None and now_ms >= self._deadline_ms:
            self._lose(RequestTimedOut("the connection did not come about in time"))
        elif any(now_ms >= request.deadline_ms for request in self._in_flight):
            self._lose(RequestTimedOut("a request was not answered in time"))
        elif not self._in_flight:
            self._buffer.trim()

    def close(self, reason: ConnectionLost | None = None) -> None:
        """End it. Requests in flight are told; may be called again."""
        self._lose(reason or ConnectionLost("closed on our side"))

    def _put(self, parts: Sequence[Part]) -> None:
        self._queue.put(parts)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._send)

    def _set_options(self, connecting: socket.socket) -> None:
        settings = self._settings
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, size in (
            (socket.SO_SNDBUF, settings.send_buffer_bytes),
            (socket.SO_RCVBUF, settings.receive_buffer_bytes),
        ):
            if size >= 0:
                connecting.setsockopt(socket.SOL_SOCKET, option, size)

    # What the loop tells.

    def _on_connected(self) -> None:
        connecting = self._connecting
        assert connecting is not None
        code = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._lose(_not_connected(code, f"cannot connect: {os.strerror(code)}"))
            return
        self._loop.remove_writer(connecting.fileno())
        if self._tls is None:
            self._connecting = None
            self.adopt(PlaintextTransportLayer(connecting))
            self._up()
        else:
            try:
                self._shake_hands(self._tls.begin(connecting, self._host))
            except ConnectionLost as lost:
                self._lose(lost)

    def _shake_hands(self, channel: TlsTransportLayer) -> None:
        def done() -> None:
            self._connecting = self._handshake = None
            self._loop = TlsWatch(self._loop, channel)
            self.adopt(channel)
            self._up()

        self._handshake = Handshake(self._loop, channel, done=done, failed=self._lose)
        self._handshake.begin()

    def _on_readable(self) -> None:
        try:
            if self._receive():
                self._hand_out()
        except ConnectionLost as lost:
            self._lose(lost)
        except ProtocolError as error:
            self._lose(ConnectionLost(f"the peer sent {error}"))
        except BaseException:
            # A callback's mistake goes to the loop's handler; answers behind it must not hang.
            self._lose(ConnectionLost("an answer could not be used"))
            raise

    def _receive(self) -> bool:
        """Take in what has come; False when it surely does not complete a frame."""
        assert self._channel is not None
        for _ in range(_RECEIVES_PER_TURN):
            count = self._channel.receive_into(self._buffer.room())
            if count is None:
                return False
            if not count:
                raise ConnectionLost("closed by the peer")
            if not self._buffer.received(count):
                return True
        return False

    def _hand_out(self) -> None:
        while not self.is_closed and (frame := self._buffer.next_frame()) is not None:
            with frame:
                if len(frame) < _CORRELATION_ID.size:
                    raise ProtocolError(f"an answer of {len(frame)} bytes")
                (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
                if not self._in_flight:
                    raise ProtocolError(f"answer {correlation_id}, which nobody asked for")
                expected = self._in_flight[0].correlation_id
                if correlation_id != expected:
                    raise ProtocolError(f"answer {correlation_id} in the place of {expected}")
                self._frame = frame
                try:
                    self._in_flight.popleft().then(frame)
                finally:
                    self._frame = None

    def _send(self) -> None:
        self._is_scheduled = False
        if self._channel is None or self.is_closed:
            return
        try:
            self._queue.send(self._channel, _SENT_BYTES_PER_TURN)
        except ConnectionLost as lost:
            self._lose(lost)
            return
        must_write = self._queue.size_bytes > 0
        if must_write and not self._is_writing:
            self._loop.add_writer(self._channel.fileno(), self._send)
        elif self._is_writing and not must_write:
            self._loop.remove_writer(self._channel.fileno())
        self._is_writing = must_write

    def _lose(self, lost: ConnectionLost) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._connecting is not None:
            if self._handshake is not None:
                self._handshake.cancel()
            self._loop.remove_writer(self._connecting.fileno())
            self._connecting.close()
            self._connecting = None
        if self._channel is not None:
            self._loop.remove_reader(self._channel.fileno())
            self._loop.remove_writer(self._channel.fileno())
            self._channel.close()
        self._queue.drop()
        in_flight, self._in_flight = self._in_flight, deque()
        for request in in_flight:
            request.otherwise(lost)
        self._down(lost)
