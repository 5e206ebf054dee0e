"""A client's way to one broker: it connects when it is needed, and again when it was lost.

Requests wait here until the connection is up, its versions are known, and there is room among
those in flight. What a reader would get wrong:

- A request that is lost is told so and not sent again: only its sender knows whether it may.
- When connecting fails, all that wait are told at once. Those that come afterwards wait for the
  next attempt, which the back-off holds up; none waits longer than its own timeout.
- A message that is handed to `then` may have views of the receive buffer in it (records of a
  Fetch). They are good only within that call, unless `keep_answer` is asked for in it.
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
    is_about_login,
)
from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.exponential_backoff import ExponentialBackoff
from headwater.client.network.node_api_versions import NodeApiVersions
from headwater.client.network.oauth_token_cache import OAuthTokenCache
from headwater.client.network.request_channel import Otherwise, Request, RequestChannel, Then
from headwater.client.settings import ClientSettings
from headwater.common.exceptions import ConnectionLost, TlsRefused
from headwater.common.ports import Clock, Random
from headwater.network.peer import SocketAddress, resolve
from headwater.network.tls.tls_endpoints import ClientTls
from headwater.protocol.codec import response_class
from headwater.protocol.older_versions import Message

_SWEEP_S: Final = 0.1
# Requests that wait for a connection; more than a client of sane use ever has.
_WAITING_MAX: Final = 10_000

R = TypeVar("R", bound=Message)


class BrokerConnection:
    """One broker's address, and the connection to it if there is one. For the loop's thread."""

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
        self._conversation: RequestChannel | None = None
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
        """Called when a request could be sent that could not before, and when the way is lost."""

    @property
    def versions(self) -> NodeApiVersions | None:
        """What the broker understands; None while it is not connected."""
        return None if self._conversation is None else self._conversation.versions

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
        return not self._waiting and self._has_room

    @property
    def load(self) -> int:
        """How many requests wait, for room or for an answer."""
        conversation = self._conversation
        in_flight = conversation.in_flight_count if conversation is not None else 0
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
        assert response_class(message.api) is response
        future: asyncio.Future[R] = self._loop.create_future()

        def then(answer: R) -> None:
            if not future.done():
                future.set_result(answer)

        def otherwise(error: KafkaError) -> None:
            if not future.done():
                future.set_exception(error)

        self.ask(message, then, otherwise, timeout_ms=timeout_ms, newest=newest)
        return await future

    def keep_answer(self) -> bool:
        """Within `then`: have the views in its message stay good; False if they must be copied.

        Whoever keeps one of them keeps the memory of the whole answer.
        """
        return self._conversation is not None and self._conversation.keep_answer()

    def connect(self) -> None:
        """Begin to connect, if it is not connected, as soon as the back-off allows."""
        if self._is_closed or self._conversation is not None or self._resolving is not None:
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
        if self._conversation is not None:
            self._conversation.close()
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
        request = Request(
            message=message,
            newest=newest,
            deadline_ms=now_ms + limit_ms,
            then=None if then is None else partial(self._hand_over, then),
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
            self._lost(ConnectionLost(str(error) or "its name is not resolved in time"))
            return
        self._resolving = None
        self._addresses = found
        self._open(self._addresses.pop(0))

    def _open(self, where: SocketAddress) -> None:
        self._conversation = RequestChannel(
            self._loop,
            self._clock,
            self._rng,
            self._settings,
            self.address,
            up=self._ready,
            down=self._lost,
            tls=self._tls,
            tokens=self._tokens,
        )
        self._conversation.connect(where)
        self._arm()

    def _ready(self) -> None:
        self.failures = 0
        self._addresses = []
        self._flush()
        self._tell_change()

    def _lost(self, lost: ConnectionLost) -> None:
        """The connection is gone, or never came about."""
        was_ready = self.is_ready
        self._conversation = None
        if self._is_closed:
            return
        if not was_ready and self._addresses and not is_about_login(lost):
            # The host has another address, which needs no back-off.
            self._open(self._addresses.pop(0))
            return
        self.failures += 1
        now_ms = self._clock.steady_ms()
        self._not_before_ms = now_ms + self._backoff.after(self.failures, self._rng)
        self._refuse_waiting(self._told(lost))
        self._tell_change()

    def _told(self, lost: ConnectionLost) -> KafkaError:
        if isinstance(lost, TlsRefused):
            return SslAuthenticationFailed(f"{self.address}: {lost}")
        if is_about_login(lost):
            return error_for(lost.code, f"{self.address}: {lost}")
        return NetworkException(f"{self.address}: {lost}")

    def _refuse_waiting(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.otherwise(error)

    # Sending and receiving.

    @property
    def _has_room(self) -> bool:
        return (
            self._conversation is not None
            and self._conversation.may_send
            and self._clock.steady_ms() >= self._muted_until_ms
        )

    def _flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self._waiting and self._has_room:
            self._send(self._waiting.popleft())

    def _send(self, request: Request) -> None:
        assert self._conversation is not None
        self._conversation.send(request)

    def _hand_over(self, then: Then, answer: Message) -> None:
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._mute(throttle_ms)
        then(answer)
        self._flush()
        self._tell_change()

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
        if self._conversation is not None:
            self._conversation.sweep(now_ms)
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
        return self._resolving is not None or (self._conversation is not None and not self.is_ready)

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
        if self._conversation is None or idle_ms < 0 or self._is_closed:
            return
        left_ms = self._used_ms + idle_ms - self._clock.steady_ms()
        if left_ms > 0:
            self._idle_timer = self._loop.call_later(left_ms / 1000, self._watch_idleness)
        elif not self.load:
            self._conversation.close()
            self.failures = 0
