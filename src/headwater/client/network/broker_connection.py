"""The connection to one broker: connects on demand and reconnects after failures.

Requests wait until the connection is up, its API versions are known, and fewer than the maximum are
in flight.

Note:
- A request lost with its connection fails; it is not sent again, because only its sender knows
  whether that is safe.
- When connecting fails, all waiting requests fail at once. Later ones wait for the next attempt
  after the backoff, but not longer than their timeouts.
- A message passed to `then` may have views of the receive buffer (records of a Fetch). They are
  valid only during that call, unless it calls `keep_answer`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from headwater.client.errors import (
    KafkaError,
    NetworkException,
    SslAuthenticationFailed,
    error_for,
    is_authentication_error,
)
from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.exponential_backoff import ExponentialBackoff
from headwater.client.network.node_api_versions import NodeApiVersions
from headwater.client.network.oauth_token_cache import OAuthTokenCache
from headwater.client.network.request_channel import OnError, Request, RequestChannel, Then
from headwater.client.settings import ClientSettings
from headwater.common.exceptions import ConnectionLost, TlsHandshakeFailed
from headwater.common.ports import Clock, Random
from headwater.network.peer import SocketAddress, resolve
from headwater.network.tls.tls_endpoints import ClientTls
from headwater.protocol.codec import response_class
from headwater.protocol.older_versions import Message

_SWEEP_S: Final = 0.1
# Maximum of requests waiting for a connection; far more than clients normally have.
_WAITING_MAX: Final = 10_000

R = TypeVar("R", bound=Message)


class BrokerConnection:
    """A broker address and the connection to it, if any. Use on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: Random,
        settings: ClientSettings,
        address: BootstrapAddress,
        tls: ClientTls | None = None,
        tokens: OAuthTokenCache | None = None,
    ) -> None:
        self._tls = tls
        self._tokens = tokens
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._backoff = ExponentialBackoff(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms
        )
        self._channel: RequestChannel | None = None
        self._resolving: asyncio.Task[None] | None = None
        self._addresses: list[SocketAddress] = []
        self._waiting: deque[Request] = deque()
        self.failures = 0
        self._not_before_ms = 0
        self._muted_until_ms = 0
        self._used_ms = clock.steady_ms()
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._reconnect_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.address = address
        self.on_change: Callable[[], None] | None = None
        """Called when requests can be sent again, and when the connection is lost."""

    @property
    def versions(self) -> NodeApiVersions | None:
        """The API versions of the broker; None while not connected."""
        return None if self._channel is None else self._channel.versions

    @property
    def is_ready(self) -> bool:
        """Whether the connection is up and its API versions are known."""
        return self.versions is not None

    @property
    def is_failing(self) -> bool:
        """Whether the last connection attempt failed, or the connection was lost."""
        return self.failures > 0

    @property
    def may_send(self) -> bool:
        """Whether a request would be sent at once."""
        return not self._waiting and self._has_room

    @property
    def load(self) -> int:
        """The number of requests that are waiting or in flight."""
        channel = self._channel
        in_flight = channel.in_flight_count if channel is not None else 0
        return len(self._waiting) + in_flight

    def send_request(
        self,
        message: Message,
        then: Then,
        on_error: OnError,
        *,
        timeout_ms: int | None = None,
        newest: int | None = None,
    ) -> None:
        """Send a request in the highest common version, up to `newest`.

        Exactly one of the two callbacks is called later, within `timeout_ms` (default:
        `request.timeout.ms`) and the check interval.
        """
        self._enqueue(message, then, on_error, timeout_ms, newest)

    def send_without_response(
        self, message: Message, on_error: OnError, *, newest: int | None = None
    ) -> None:
        """Send a request that has no response; `on_error` is called if it cannot be sent."""
        self._enqueue(message, None, on_error, None, newest)

    async def call(
        self,
        message: Message,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        newest: int | None = None,
    ) -> R:
        """Send a request and await the response. Not for Fetch: see the module docstring."""
        assert response_class(message.api) is response
        future: asyncio.Future[R] = self._loop.create_future()

        def then(answer: R) -> None:
            if not future.done():
                future.set_result(answer)

        def on_error(error: KafkaError) -> None:
            if not future.done():
                future.set_exception(error)

        self.send_request(message, then, on_error, timeout_ms=timeout_ms, newest=newest)
        return await future

    def keep_answer(self) -> bool:
        """Within `then`: keep the message's views valid; False if they must be copied.

        A view keeps the memory of the whole response alive.
        """
        return self._channel is not None and self._channel.keep_answer()

    def connect(self) -> None:
        """Start connecting, if not connected, as soon as the backoff allows."""
        if self._is_closed or self._channel is not None or self._resolving is not None:
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
        """Close the connection; waiting requests fail. Idempotent."""
        self._is_closed = True
        for timer in (self._timer, self._idle_timer, self._reconnect_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._idle_timer = self._reconnect_timer = None
        if self._resolving is not None:
            self._resolving.cancel()
            self._resolving = None
        if self._channel is not None:
            self._channel.close()
        self._fail_waiting(NetworkException("closed by the client"))

    def _enqueue(
        self,
        message: Message,
        then: Then | None,
        on_error: OnError,
        timeout_ms: int | None,
        newest: int | None,
    ) -> None:
        if self._is_closed or len(self._waiting) >= _WAITING_MAX:
            why = "the connection is closed" if self._is_closed else "too many waiting requests"
            self._loop.call_soon(on_error, NetworkException(f"{self.address}: {why}"))
            return
        now_ms = self._clock.steady_ms()
        self._used_ms = now_ms
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        request = Request(
            message=message,
            newest=newest,
            deadline_ms=now_ms + limit_ms,
            then=None if then is None else partial(self._hand_over, then),
            on_error=on_error,
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
            self._lost(ConnectionLost(str(error) or "host name was not resolved in time"))
            return
        self._resolving = None
        self._addresses = found
        self._open(self._addresses.pop(0))

    def _open(self, where: SocketAddress) -> None:
        self._channel = RequestChannel(
            self._loop,
            self._clock,
            self._rng,
            self._settings,
            self.address,
            on_connected=self._ready,
            on_disconnected=self._lost,
            tls=self._tls,
            tokens=self._tokens,
        )
        self._channel.connect(where)
        self._arm()

    def _ready(self) -> None:
        self.failures = 0
        self._addresses = []
        self._flush()
        self._notify_change()

    def _lost(self, lost: ConnectionLost) -> None:
        """The connection was lost, or could not be established."""
        was_ready = self.is_ready
        self._channel = None
        if self._is_closed:
            return
        if not was_ready and self._addresses and not is_authentication_error(lost):
            # Try the next address of the host, without backoff.
            self._open(self._addresses.pop(0))
            return
        self.failures += 1
        now_ms = self._clock.steady_ms()
        self._not_before_ms = now_ms + self._backoff.after(self.failures, self._rng)
        self._fail_waiting(self._error_of(lost))
        self._notify_change()

    def _error_of(self, lost: ConnectionLost) -> KafkaError:
        if isinstance(lost, TlsHandshakeFailed):
            return SslAuthenticationFailed(f"{self.address}: {lost}")
        if is_authentication_error(lost):
            return error_for(lost.code, f"{self.address}: {lost}")
        return NetworkException(f"{self.address}: {lost}")

    def _fail_waiting(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.on_error(error)

    # Sending and receiving.

    @property
    def _has_room(self) -> bool:
        return (
            self._channel is not None
            and self._channel.may_send
            and self._clock.steady_ms() >= self._muted_until_ms
        )

    def _flush(self) -> None:
        """Send waiting requests, up to the maximum in flight."""
        while self._waiting and self._has_room:
            self._send(self._waiting.popleft())

    def _send(self, request: Request) -> None:
        assert self._channel is not None
        self._channel.send(request)

    def _hand_over(self, then: Then, answer: Message) -> None:
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._mute(throttle_ms)
        then(answer)
        self._flush()
        self._notify_change()

    def _mute(self, throttle_ms: int) -> None:
        """Throttle ourselves: brokers since 2.0 respond at once and expect it (KIP-219)."""
        self._muted_until_ms = self._clock.steady_ms() + throttle_ms
        self._loop.call_later(throttle_ms / 1000, self._unmuted)

    def _unmuted(self) -> None:
        self._flush()
        self._notify_change()

    def _notify_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    # Timers.

    def _arm(self) -> None:
        if self._timer is None and not self._is_closed:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now_ms = self._clock.steady_ms()
        if self._channel is not None:
            self._channel.sweep(now_ms)
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
        return self._resolving is not None or (self._channel is not None and not self.is_ready)

    def _expire_waiting(self, now_ms: int) -> None:
        if not any(now_ms >= request.deadline_ms for request in self._waiting):
            return
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if now_ms >= request.deadline_ms:
                request.on_error(
                    NetworkException(f"{self.address}: not connected before the timeout")
                )
            else:
                self._waiting.append(request)

    def _watch_idleness(self) -> None:
        """Close the connection after `connections.max.idle.ms` without requests."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        idle_ms = self._settings.connections_max_idle_ms
        if self._channel is None or idle_ms < 0 or self._is_closed:
            return
        left_ms = self._used_ms + idle_ms - self._clock.steady_ms()
        if left_ms > 0:
            self._idle_timer = self._loop.call_later(left_ms / 1000, self._watch_idleness)
        elif not self.load:
            self._channel.close()
            self.failures = 0
