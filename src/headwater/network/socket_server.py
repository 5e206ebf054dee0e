"""The network server of a broker: listeners, connections, limits (SocketServer).

The owner must call `sweep` about once a second; without it, idle connections are not closed, muted
connections stay muted, and paused acceptors never resume.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from headwater.common.principal import Principal, Requester
from headwater.network.acceptor import Acceptor, listening_socket, set_options
from headwater.network.closing import ClosingConnections
from headwater.network.connection import Connection, ConnectionContext
from headwater.network.endpoint import Endpoint
from headwater.network.event_loop import crowded_check
from headwater.network.limits.closed_connection_log import ClosedConnectionLog
from headwater.network.limits.connection_creation_rate import ConnectionQuota, ThrottledConnections
from headwater.network.limits.connection_quotas import ConnectionQuotas
from headwater.network.limits.fair_queue import FairQueue
from headwater.network.limits.idle_expiry import CoarseClock, IdleExpiryManager
from headwater.network.limits.inflight_bytes import STEPWISE_BYTES_MAX, ByteLimit, InflightBytes
from headwater.network.network_settings import NetworkSettings
from headwater.network.request_service import AuthenticatorFactory, ClientAddress, Service
from headwater.network.response_batching import ResponseBatching
from headwater.network.tls.pending_handshakes import PendingHandshakes
from headwater.network.tls.tls_channel import TlsTransportLayer
from headwater.network.tls.tls_endpoints import ListenerTls
from headwater.network.tls.tls_handshake import TlsWatch
from headwater.network.transport_layer import PlaintextTransportLayer, TransportLayer

_CLOSE_WAIT_MS: Final = 500
# Measured with a clock that is set once a second.
_SHORT_LIVED_MS: Final = 1_000

_log = logging.getLogger(__name__)


class SocketServer:
    """Binds, then accepts, then stops; each once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: NetworkSettings,
        service: Service,
        *,
        now_ms: int,
        tls: Mapping[str, ListenerTls] | None = None,
        authenticators: Mapping[str, AuthenticatorFactory] | None = None,
        protected: str | None = None,
    ) -> None:
        """`tls` has the TLS listeners, `guards` the authenticators of SASL listeners.

        `protected` is the listener that limits of all listeners together do not affect.
        """
        self._tls = tls or {}
        self._authenticators = authenticators or {}
        self._loop = loop
        self._settings = settings
        self._clock = CoarseClock(now_ms)
        self._connection_quotas = ConnectionQuotas(settings, protected=protected)
        self._connection_quotas.refill(now_ms)
        self._idle: IdleExpiryManager[Connection] = IdleExpiryManager(
            settings.connections_max_idle_ms
        )
        self._to_sweep: dict[Connection, None] = {}
        self._connections: dict[Connection, None] = {}
        self._listeners: list[Acceptor] = []
        self._by_name: dict[str, Acceptor] = {}
        self._drained: asyncio.Event = asyncio.Event()
        self._all_closed: asyncio.Event = asyncio.Event()
        # None while no address has a connection rate quota.
        self.connection_quota: ConnectionQuota | None = None
        self.throttled_connections = ThrottledConnections()
        self._closed_connection_log = ClosedConnectionLog()
        self._closing_connections = ClosingConnections(
            loop, self._clock, close=self._close, on_empty=self._all_closed.set
        )
        self._handshakes = PendingHandshakes(
            loop,
            timeout_ms=settings.headwater_tls_handshake_timeout_ms,
            on_done=self._handshake_done,
            on_failed=lambda gone: self._connection_quotas.dec(gone.listener, gone.peer_host),
        )
        self.inflight_bytes = InflightBytes(
            overlapping_requests=ByteLimit(loop, settings.queued_max_requests),
            buffer_bytes=ByteLimit(loop, settings.queued_max_request_bytes),
            stepwise_bytes=ByteLimit(loop, STEPWISE_BYTES_MAX),
        )
        self._context = ConnectionContext(
            loop=loop,
            settings=settings,
            service=service,
            inflight_bytes=self.inflight_bytes,
            clock=self._clock,
            to_sweep=self._to_sweep,
            on_closed=self._on_closed,
            is_crowded=crowded_check(loop),
            response_batching=ResponseBatching(loop),
            fair_queue=FairQueue(loop),
            closed_connection_log=self._closed_connection_log,
            close=self._close,
            close_gracefully=self._closing_connections.close_gracefully,
        )

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """The bound endpoints, with the actual ports."""
        return [listener.endpoint for listener in self._listeners]

    @property
    def connections(self) -> Sequence[Connection]:
        return list(self._connections)

    @property
    def failed_handshakes(self) -> Mapping[str, int]:
        """Failed TLS handshakes by listener."""
        return self._handshakes.failed_counts

    def bind(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Bind all endpoints or none, and return them with the actual ports.

        Clients can connect from now on, and wait in the backlog until `start`.
        """
        try:
            for endpoint in endpoints:
                listener = self._listener(endpoint, endpoints)
                self._listeners.append(listener)
                self._by_name[endpoint.name] = listener
        except BaseException:
            self.close_listeners()
            raise
        return list(self.endpoints)

    def configure(self, settings: NetworkSettings) -> None:
        """Apply new connection limits; existing connections are not closed."""
        self._connection_quotas.configure(settings)

    def start(self) -> None:
        for listener in self._listeners:
            listener.start()

    def sweep(self, now_ms: int) -> None:
        """Run periodic checks."""
        for connection in list(self._to_sweep):
            connection.sweep(now_ms)
        self._clock.now_ms = now_ms
        self._connection_quotas.refill(now_ms)
        self._handshakes.sweep(now_ms)
        self._closing_connections.sweep(now_ms)
        self.throttled_connections.sweep(now_ms)
        self._closed_connection_log.sweep()
        for listener in self._listeners:
            listener.sweep()
        for connection in self._idle.expired(now_ms):
            if connection.is_idle:
                _log.info("Closed idle connection: client=%s", connection.address)
                connection.close()

    async def stop(self, *, drain_ms: int) -> None:
        """Stop accepting connections and requests; send pending responses within the time."""
        self.close_listeners()
        self._handshakes.close()
        self.throttled_connections.close()
        for connection in list(self._connections):
            connection.drain()
        self._drained.clear()
        if self._connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), drain_ms / 1_000)
        if self._connections:
            _log.warning(
                "Closed connections with pending responses: count=%d", len(self._connections)
            )
        for connection in list(self._connections):
            connection.close()
        await self._await_close(min(drain_ms, _CLOSE_WAIT_MS))

    async def _await_close(self, timeout_ms: int) -> None:
        """Let clients read the last responses. Clients that do not close in time are idle."""
        self._all_closed.clear()
        if self._closing_connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), timeout_ms / 1_000)
        self._closing_connections.close()

    def _close(self, channel: TransportLayer, address: ClientAddress) -> None:
        """Close an admitted connection and remove it from the counts."""
        channel.close()
        self._connection_quotas.dec(address.listener, address.peer_host)

    def _on_closed(self, connection: Connection) -> None:
        del self._connections[connection]
        self._idle.remove(connection)
        if self._clock.now_ms - connection.since_ms <= _SHORT_LIVED_MS:
            listener = self._by_name[connection.address.listener]
            listener.charge_short_lived(connection.tag_ns - connection.first_tag_ns)
        if not self._connections:
            self._drained.set()

    def _listener(self, endpoint: Endpoint, all_endpoints: Sequence[Endpoint]) -> Acceptor:
        shares_port = any(
            other is not endpoint and other.port == endpoint.port != 0 for other in all_endpoints
        )
        listening = listening_socket(endpoint, self._settings, both_families=not shares_port)
        name = endpoint.name
        return Acceptor(
            endpoint,
            listening,
            self._loop,
            fair_queue=self._context.fair_queue,
            may_accept=lambda: self._connection_quotas.may_accept(name),
            on_accepted=lambda accepted, host, port: self._on_accepted(
                accepted, ClientAddress(listener=name, peer_host=host, peer_port=port)
            ),
        )

    def _on_accepted(self, accepted: socket.socket, address: ClientAddress) -> None:
        if self.connection_quota is not None:
            now_ms = self._clock.now_ms
            throttle_ms = self.connection_quota.throttle_ms(address.peer_host, now_ms)
            if throttle_ms > 0:
                _log.info("Throttled connection by connection_creation_rate: client=%s", address)
                self.throttled_connections.add(accepted, now_ms + throttle_ms)
                return
        setting = self._connection_quotas.inc(address.listener, address.peer_host)
        if setting is not None:
            _log.info("Rejected connection: client=%s setting=%s", address, setting)
            accepted.close()
            return
        tls = self._tls.get(address.listener)
        try:
            set_options(accepted, self._settings)
            if tls is None:
                self._serve(PlaintextTransportLayer(accepted), address, self._context)
            else:
                listener = self._by_name[address.listener]
                self._handshakes.begin(accepted, tls, address, listener, self._clock.now_ms)
        except OSError as error:
            # The peer may have reset it already, or the loop cannot watch more descriptors.
            _log.info("Could not serve connection: client=%s error=%s", address, error)
            self._connection_quotas.dec(address.listener, address.peer_host)
            accepted.close()

    def _serve(
        self, channel: TransportLayer, address: ClientAddress, context: ConnectionContext
    ) -> Connection:
        listener = self._by_name[address.listener]
        connection = Connection(channel, address, context, listener.tag_ns)
        guard = self._authenticators.get(address.listener)
        if guard is not None:
            guard(connection)
        self._connections[connection] = None
        self._idle.add(connection)
        return connection

    def _handshake_done(
        self, channel: TlsTransportLayer, address: ClientAddress, principal: Principal
    ) -> None:
        """Serve a connection after its TLS handshake."""
        watched = replace(self._context, loop=TlsWatch(self._loop, channel))
        try:
            connection = self._serve(channel, address, watched)
        except OSError as error:
            _log.info("Could not serve connection: client=%s error=%s", address, error)
            self._close(channel, address)
            return
        connection.requester = Requester(principal, address.peer_host)

    def close_listeners(self) -> None:
        """Unbind all endpoints; connections stay. Idempotent."""
        for listener in self._listeners:
            listener.close()
