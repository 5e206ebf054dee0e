"""An outgoing connection to a broker: requests out, responses back in order.

A peer connects once and ends once; reconnecting is up to its owner.

Note: the frame of a response is only valid within the callback, like the frame of a request (see
`request_service`), unless the callback calls `keep_frame`.
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
    ConnectionRefused,
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

# Zeroing up to this size costs less than loading the kernel.
_ZEROED_BLOCK_BYTES = 65_536
# A producer's request has a mebibyte of records, which should go out in one iteration of the loop:
# each further one costs as much as sending some hundred kilobytes.
_SENT_BYTES_PER_TURN = 1_114_112
# Receive a large response in one iteration as far as it has arrived, but leave time for others.
_RECEIVES_PER_TURN = 16
# Bounds frames without a response, which do not count as in flight.
_UNSENT_BYTES_MAX = 1_048_576

_CORRELATION_ID = struct.Struct(">i")

Then = Callable[[memoryview], None]
OnError = Callable[[ConnectionLost], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """Bounds of one outgoing connection, under the names of Kafka's client settings."""

    max_in_flight_requests_per_connection: int = 5
    send_buffer_bytes: int = 131_072
    receive_buffer_bytes: int = 65_536
    # Largest accepted response; a Fetch response may exceed its own limit.
    headwater_answer_max_bytes: int = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketAddress:
    """A resolved address."""

    family: int
    address: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFlight:
    """A request that waits for its response."""

    correlation_id: int
    deadline_ms: int
    then: Then
    on_error: OnError


async def resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[SocketAddress]:
    """Resolve a host to its addresses, in the order to try them."""
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionLost(f"cannot resolve {host}: {error.strerror or error}") from error
    return [SocketAddress(family=family, address=address) for family, _, _, _, address in found]


def _new_block(size_bytes: int) -> memoryview:
    """Allocate a block; small ones without the kernel, which loads slowly."""
    if size_bytes <= _ZEROED_BLOCK_BYTES:
        return memoryview(bytearray(size_bytes))
    from headwater.records.kernel import new_block

    return new_block(size_bytes)


def _not_connected(code: int | None, text: str) -> ConnectionLost:
    return ConnectionRefused(text) if code == errno.ECONNREFUSED else ConnectionLost(text)


class Peer:
    """One connection, from connect to close. Only for the loop's thread.

    `up` is called when it is connected, unless it is lost before; `down` once, when it is lost,
    after the callbacks of all requests in flight.
    """

    def __init__(
        self,
        loop: Loop,
        settings: PeerSettings,
        *,
        on_connected: Callable[[], None],
        on_disconnected: Callable[[ConnectionLost], None],
        tls: ClientTls | None = None,
        host: str = "",
    ) -> None:
        """With `tls`, the broker's certificate must be valid for `host`."""
        self._tls = tls
        self._host = host
        self._handshake: Handshake | None = None
        self._loop = loop
        self._settings = settings
        self._up = on_connected
        self._down = on_disconnected
        self._channel: TransportLayer | None = None
        self._connecting: socket.socket | None = None
        self._deadline_ms = 0
        # Callers that keep large responses need new memory all the time, and fresh pages are
        # expensive.
        self._buffer = ReceiveBuffer(settings.headwater_answer_max_bytes, _new_block)
        self._queue = SendQueue(_SENT_BYTES_PER_TURN)
        self._in_flight: deque[_InFlight] = deque()
        self._frame: memoryview | None = None
        self._is_scheduled = False
        self._is_writing = False
        self.is_closed = False

    @property
    def is_connected(self) -> bool:
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
        """Whether it is connected and can take another request."""
        return (
            self.is_connected
            and len(self._in_flight) < self._settings.max_in_flight_requests_per_connection
            and self._queue.size_bytes <= _UNSENT_BYTES_MAX
        )

    def connect(self, where: SocketAddress, *, deadline_ms: int) -> None:
        """Start connecting. A failure, even an immediate one, is reported to `down` later."""
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
        """Use a connected channel."""
        assert self._channel is None
        self._channel = channel
        self._loop.add_reader(channel.fileno(), self._on_readable)

    def send_request(
        self,
        correlation_id: int,
        parts: Sequence[Part],
        *,
        deadline_ms: int,
        then: Then,
        on_error: OnError,
    ) -> None:
        """Send a whole frame, with its size field. One of the callbacks is called, once.

        Only allowed while `may_send` is true.
        """
        assert self.may_send
        self._in_flight.append(
            _InFlight(
                correlation_id=correlation_id,
                deadline_ms=deadline_ms,
                then=then,
                on_error=on_error,
            )
        )
        self._put(parts)

    def send_without_response(self, parts: Sequence[Part]) -> None:
        """Send a frame without a response: Produce with acks=0."""
        assert self.may_send
        self._put(parts)

    def keep_frame(self) -> bool:
        """Let the callback keep the frame's memory; False if it must copy."""
        assert self._frame is not None, "only within the callback of a response"
        return self._buffer.detach(self._frame)

    def sweep(self, now_ms: int) -> None:
        """Check deadlines; as in Kafka's clients, a timeout closes the connection."""
        if self._connecting is not None and now_ms >= self._deadline_ms:
            self._lose(RequestTimedOut("the connection attempt timed out"))
        elif any(now_ms >= request.deadline_ms for request in self._in_flight):
            self._lose(RequestTimedOut("a request timed out"))
        elif not self._in_flight:
            self._buffer.trim()

    def close(self, reason: ConnectionLost | None = None) -> None:
        """Close the connection and fail requests in flight. Idempotent."""
        self._lose(reason or ConnectionLost("closed by this side"))

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

    # Callbacks of the loop.

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
                self._handshake_with_tls(self._tls.wrap(connecting, self._host))
            except ConnectionLost as lost:
                self._lose(lost)

    def _handshake_with_tls(self, channel: TlsTransportLayer) -> None:
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
                self._deliver_responses()
        except ConnectionLost as lost:
            self._lose(lost)
        except ProtocolError as error:
            self._lose(ConnectionLost(f"protocol error: {error}"))
        except BaseException:
            # A bug in a callback goes to the loop's handler; later responses must not hang.
            self._lose(ConnectionLost("processing a response failed"))
            raise

    def _receive(self) -> bool:
        """Receive what is available; False if it surely does not complete a frame."""
        assert self._channel is not None
        for _ in range(_RECEIVES_PER_TURN):
            count = self._channel.receive_into(self._buffer.get_buffer())
            if count is None:
                return False
            if not count:
                raise ConnectionLost("closed by the peer")
            if not self._buffer.buffer_updated(count):
                return True
        return False

    def _deliver_responses(self) -> None:
        while not self.is_closed and (frame := self._buffer.next_frame()) is not None:
            with frame:
                if len(frame) < _CORRELATION_ID.size:
                    raise ProtocolError(f"response of {len(frame)} bytes")
                (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
                if not self._in_flight:
                    raise ProtocolError(f"unexpected response with correlation id {correlation_id}")
                expected = self._in_flight[0].correlation_id
                if correlation_id != expected:
                    raise ProtocolError(
                        f"response with correlation id {correlation_id}, expected {expected}"
                    )
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
            request.on_error(lost)
        self._down(lost)
