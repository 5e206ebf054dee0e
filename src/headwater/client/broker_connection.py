"""A client's way to one broker: it connects when it is needed, and again when it was lost.

Requests wait here until the connection is up, its versions are known, and there is room among
those in flight. What a reader would get wrong:

- A request that is lost is told so and not sent again: only its sender knows whether it may.
- When connecting fails, all that wait are told at once. Those that come afterwards wait for the
  next attempt, which the back-off holds up; none waits longer than its own timeout.
- A message that is handed to `then` may have views of the receive buffer in it (records of a
  Fetch). They are good only within that call.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, TypeVar

from headwater import __version__
from headwater.client.addresses import Address
from headwater.client.backoff import Backoff
from headwater.client.errors import (
    KafkaError,
    NetworkException,
    UnsupportedVersion,
    from_failure,
)
from headwater.client.settings import ClientSettings
from headwater.client.versions import BrokerVersions, broker_versions
from headwater.model.errors import ErrorCode
from headwater.model.failures import ConnectionLost, ProtocolError, UnsupportedInVersion
from headwater.model.ports import Clock, Dice
from headwater.net.peer import Peer, PeerSettings, SocketAddress, resolve
from headwater.records.header import Buffer
from headwater.wire.api_key import ApiKey
from headwater.wire.api_table import APIS
from headwater.wire.headers import request_frame, response_body_position
from headwater.wire.lifting import Message
from headwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.wire.parts import Part
from headwater.wire.translation import read, response_shape, write

_SWEEP_S: Final = 0.1
# Requests that wait for a connection; more than a client of sane use ever has.
_WAITING_MAX: Final = 10_000
_CORRELATION_LIMIT: Final = 2**31 - 1
_ERROR_CODE: Final = Struct(">h")

Then = Callable[[Any], None]
Otherwise = Callable[[KafkaError], None]
R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request with its two ends. Without `then` no answer is expected."""

    message: Message
    newest: int | None
    deadline_ms: int
    then: Then | None
    otherwise: Otherwise


class BrokerConnection:
    """One broker's address, and the connection to it if there is one. For the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        dice: Dice,
        settings: ClientSettings,
        address: Address,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._dice = dice
        self._settings = settings
        self._backoff = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms)
        self._peer: Peer | None = None
        self._resolving: asyncio.Task[None] | None = None
        self._addresses: list[SocketAddress] = []
        self._waiting: deque[_Request] = deque()
        self._correlation_id = 0
        self.failures = 0
        self._not_before_ms = 0
        self._muted_until_ms = 0
        self._used_ms = clock.steady_ms()
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._reconnect_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.address = address
        self.versions: BrokerVersions | None = None
        self.on_change: Callable[[], None] | None = None
        """Called when a request could be sent that could not before, and when the way is lost."""

    @property
    def is_ready(self) -> bool:
        """Whether it is connected and its versions are known."""
        return self.versions is not None

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to connect failed, or the connection was lost since."""
        return self.failures > 0

    @property
    def may_send(self) -> bool:
        """Whether a request would leave at once."""
        return (
            self.versions is not None
            and not self._waiting
            and self._peer is not None
            and self._peer.may_send
            and self._clock.steady_ms() >= self._muted_until_ms
        )

    @property
    def load(self) -> int:
        """How many requests wait, for room or for an answer."""
        in_flight = self._peer.in_flight_count if self._peer is not None else 0
        return len(self._waiting) + in_flight

    def ask(
        self,
        message: Message,
        then: Then,
        otherwise: Otherwise,
        *,
        timeout_ms: int | None = None,
        newest: int | None = None,
    ) -> None:
        """Send a request, in the highest version that both know and that is not above `newest`.

        Exactly one of the two is called, later, within `timeout_ms` (`request.timeout.ms`) plus
        the time to notice.
        """
        self._enqueue(message, then, otherwise, timeout_ms, newest)

    def tell(self, message: Message, otherwise: Otherwise, *, newest: int | None = None) -> None:
        """Send a request that has no answer. `otherwise` is told if it could not be sent."""
        self._enqueue(message, None, otherwise, None, newest)

    async def call(
        self,
        message: Message,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        newest: int | None = None,
    ) -> R:
        """Send a request and wait for its answer. Not for Fetch: see the module's text."""
        assert response_shape(message.api) is response
        future: asyncio.Future[R] = self._loop.create_future()

        def then(answer: R) -> None:
            if not future.done():
                future.set_result(answer)

        def otherwise(error: KafkaError) -> None:
            if not future.done():
                future.set_exception(error)

        self.ask(message, then, otherwise, timeout_ms=timeout_ms, newest=newest)
        return await future

    def connect(self) -> None:
        """Begin to connect, if it is not connected, as soon as the back-off allows."""
        if self._is_closed or self._peer is not None or self._resolving is not None:
            return
        self._arm()
        wait_ms = self._not_before_ms - self._clock.steady_ms()
        if wait_ms <= 0:
            self._resolving = self._loop.create_task(self._resolve())
        elif self._reconnect_timer is None:
            self._reconnect_timer = self._loop.call_later(wait_ms / 1000, self._reconnect)

    def _reconnect(self) -> None:
        self._reconnect_timer = None
        self.connect()

    def close(self) -> None:
        """End it; what waits is told. May be called again."""
        self._is_closed = True
        for timer in (self._timer, self._idle_timer, self._reconnect_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._idle_timer = self._reconnect_timer = None
        if self._resolving is not None:
            self._resolving.cancel()
            self._resolving = None
        if self._peer is not None:
            self._peer.close()
        self._refuse_waiting(NetworkException("closed on our side"))

    def _enqueue(
        self,
        message: Message,
        then: Then | None,
        otherwise: Otherwise,
        timeout_ms: int | None,
        newest: int | None,
    ) -> None:
        if self._is_closed or len(self._waiting) >= _WAITING_MAX:
            why = "the connection is closed" if self._is_closed else "too many requests wait"
            self._loop.call_soon(otherwise, NetworkException(f"{self.address}: {why}"))
            return
        now_ms = self._clock.steady_ms()
        self._used_ms = now_ms
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        request = _Request(
            message=message,
            newest=newest,
            deadline_ms=now_ms + limit_ms,
            then=then,
            otherwise=otherwise,
        )
        if self.may_send:
            self._send(request)
        else:
            self._waiting.append(request)
            self.connect()
        self._arm()

    # Connecting.

    async def _resolve(self) -> None:
        limit_s = self._settings.socket_connection_setup_timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                found = await resolve(self._loop, self.address.host, self.address.port)
        except (ConnectionLost, TimeoutError) as error:
            self._resolving = None
            self._lost(ConnectionLost(f"{self.address} cannot be resolved: {error}"))
            return
        self._resolving = None
        self._addresses = found
        self._open(self._addresses.pop(0))

    def _open(self, where: SocketAddress) -> None:
        settings = PeerSettings(
            max_in_flight_requests_per_connection=(
                self._settings.max_in_flight_requests_per_connection
            ),
            send_buffer_bytes=self._settings.send_buffer_bytes,
            receive_buffer_bytes=self._settings.receive_buffer_bytes,
            headwater_answer_max_bytes=self._settings.headwater_answer_max_bytes,
        )
        self._peer = peer = Peer(self._loop, settings, up=self._negotiate, down=self._lost)
        limit_ms = self._settings.socket_connection_setup_timeout_ms
        peer.connect(where, deadline_ms=self._clock.steady_ms() + limit_ms)
        self._arm()

    def _negotiate(self) -> None:
        self._ask_versions(APIS[ApiKey.API_VERSIONS].newest)

    def _ask_versions(self, version: int) -> None:
        request = ApiVersionsRequest(
            client_software_name="headwater", client_software_version=__version__
        )

        def then(frame: memoryview) -> None:
            self._versions_came(frame, version)

        self._transmit(
            request,
            version,
            self._clock.steady_ms() + self._settings.request_timeout_ms,
            then,
            lambda _: None,
        )

    def _versions_came(self, frame: memoryview, asked: int) -> None:
        """The answer to the first request. One in a version that is too new comes in version 0."""
        body = frame[4:]
        try:
            (code,) = _ERROR_CODE.unpack_from(body)
        except struct_error as error:
            raise ProtocolError("no answer to ApiVersions") from error
        is_too_new = code == ErrorCode.UNSUPPORTED_VERSION and asked > 0
        response = read(ApiVersionsResponse, 0 if is_too_new else asked, body)
        if is_too_new:
            # Brokers before 2.4 do not say what they would understand; all understand 0.
            own = broker_versions(response).highest(ApiKey.API_VERSIONS, newest=asked - 1)
            self._ask_versions(own or 0)
            return
        if response.error_code is not ErrorCode.NONE:
            raise ProtocolError(f"{response.error_code.name} to ApiVersions")
        self.versions = broker_versions(response)
        self.failures = 0
        self._addresses = []
        self._flush()
        self._tell_change()

    def _lost(self, lost: ConnectionLost) -> None:
        """The connection is gone, or never came about."""
        was_ready = self.versions is not None
        self._peer = None
        self.versions = None
        if self._is_closed:
            return
        if not was_ready and self._addresses:
            # The host has another address, which needs no back-off.
            self._open(self._addresses.pop(0))
            return
        self.failures += 1
        now_ms = self._clock.steady_ms()
        self._not_before_ms = now_ms + self._backoff.after(self.failures, self._dice)
        self._refuse_waiting(NetworkException(f"{self.address}: {lost}"))
        self._tell_change()

    def _refuse_waiting(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.otherwise(error)

    # Sending and receiving.

    def _flush(self) -> None:
        """Send what waits, as far as there is room."""
        peer = self._peer
        while (
            self._waiting
            and self.versions is not None
            and peer is not None
            and peer.may_send
            and self._clock.steady_ms() >= self._muted_until_ms
        ):
            self._send(self._waiting.popleft())

    def _send(self, request: _Request) -> None:
        assert self.versions is not None
        try:
            version = self.versions.choose(request.message.api, newest=request.newest)
            then = None if request.then is None else self._reading(request, version)
            self._transmit(
                request.message,
                version,
                request.deadline_ms,
                then,
                lambda lost: request.otherwise(from_failure(lost)),
            )
        except UnsupportedVersion as error:
            self._loop.call_soon(request.otherwise, error)
        except UnsupportedInVersion as error:
            self._loop.call_soon(request.otherwise, UnsupportedVersion(str(error)))

    def _transmit(
        self,
        message: Message,
        version: int,
        deadline_ms: int,
        then: Callable[[memoryview], None] | None,
        otherwise: Callable[[ConnectionLost], None],
    ) -> None:
        assert self._peer is not None
        body = write(message, version)
        self._correlation_id = correlation_id = (self._correlation_id + 1) % _CORRELATION_LIMIT
        frame = request_frame(
            APIS[message.api], version, correlation_id, self._settings.client_id, body
        )
        parts = _buffers(frame)
        if then is None:
            self._peer.tell(parts)
        else:
            self._peer.ask(
                correlation_id, parts, deadline_ms=deadline_ms, then=then, otherwise=otherwise
            )

    def _reading(self, request: _Request, version: int) -> Callable[[memoryview], None]:
        api = APIS[request.message.api]
        shape = response_shape(api.key)
        hand_over = request.then
        assert hand_over is not None

        def then(frame: memoryview) -> None:
            try:
                body = frame[response_body_position(api, version, frame) :]
                answer = read(shape, version, body)
            except ProtocolError as error:
                # Taken off the connection's list already, so it must be told here.
                request.otherwise(NetworkException(f"{self.address} answered garbage: {error}"))
                raise
            throttle_ms = getattr(answer, "throttle_time_ms", 0)
            if throttle_ms > 0:
                self._mute(throttle_ms)
            hand_over(answer)
            self._flush()
            self._tell_change()

        return then

    def _mute(self, throttle_ms: int) -> None:
        """A quota is exceeded. Brokers since 2.0 answer at once and rely on this (KIP-219)."""
        self._muted_until_ms = self._clock.steady_ms() + throttle_ms
        self._loop.call_later(throttle_ms / 1000, self._unmuted)

    def _unmuted(self) -> None:
        self._flush()
        self._tell_change()

    def _tell_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    # Time.

    def _arm(self) -> None:
        if self._timer is None and not self._is_closed:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now_ms = self._clock.steady_ms()
        if self._peer is not None:
            self._peer.sweep(now_ms)
        self._expire_waiting(now_ms)
        if self._waiting:
            self.connect()
            self._flush()
        if self.load or self._is_connecting:
            self._arm()
        else:
            self._watch_idleness()

    @property
    def _is_connecting(self) -> bool:
        return self._resolving is not None or (self._peer is not None and self.versions is None)

    def _expire_waiting(self, now_ms: int) -> None:
        if not any(now_ms >= request.deadline_ms for request in self._waiting):
            return
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if now_ms >= request.deadline_ms:
                request.otherwise(NetworkException(f"{self.address}: not connected in time"))
            else:
                self._waiting.append(request)

    def _watch_idleness(self) -> None:
        """A connection without use is closed, but not one that a request came for meanwhile."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        idle_ms = self._settings.connections_max_idle_ms
        if self._peer is None or idle_ms < 0 or self._is_closed:
            return
        left_ms = self._used_ms + idle_ms - self._clock.steady_ms()
        if left_ms > 0:
            self._idle_timer = self._loop.call_later(left_ms / 1000, self._watch_idleness)
        elif not self.load:
            self._peer.close()
            self.failures = 0


def _buffers(parts: list[Part]) -> list[Buffer]:
    """A client never sends files."""
    buffers: list[Buffer] = []
    for part in parts:
        assert isinstance(part, Buffer)
        buffers.append(part)
    return buffers
