"""The sockets of a broker: all listeners, all connections, their limits and their end.

What a reader would get wrong: nothing here knows the time. Whoever runs the server calls `sweep`
about once a second; without it no idle connection is closed, no muted one speaks again, and a
listener that rests never wakes.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from headwater.model.requester import Principal, Requester
from headwater.net.admission import Admission
from headwater.net.channel import Channel, PlainChannel
from headwater.net.complaints import Complaints
from headwater.net.connection import Connection, Surroundings
from headwater.net.departures import Departures
from headwater.net.endpoint import Endpoint
from headwater.net.fair_queue import FairQueue
from headwater.net.farewell import Farewells
from headwater.net.handshakes import Handshakes
from headwater.net.held_off import ConnectionQuota, HeldOff
from headwater.net.idleness import CoarseClock, IdleWheel
from headwater.net.intake import STEPWISE_BYTES_MAX, Bound, Intake
from headwater.net.listener import Listener, listening_socket, set_options
from headwater.net.loop import crowd_on
from headwater.net.service import Address, Guard, Service
from headwater.net.settings import NetworkSettings
from headwater.net.tls import ListenerTls
from headwater.net.tls_channel import TlsChannel
from headwater.net.tls_watch import TlsWatch

_FAREWELL_MS: Final = 500

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
        guards: Mapping[str, Guard] | None = None,
        protected: str | None = None,
    ) -> None:
        """`tls` has the listeners that speak it, `guards` those where peers are let in first.

        `protected` is a listener that limits of all listeners together leave open.
        """
        self._tls = tls or {}
        self._guards = guards or {}
        self._loop = loop
        self._settings = settings
        self._clock = CoarseClock(now_ms)
        self._admission = Admission(settings, protected=protected)
        self._admission.refill(now_ms)
        self._idle: IdleWheel[Connection] = IdleWheel(settings.connections_max_idle_ms)
        self._attentive: dict[Connection, None] = {}
        self._connections: dict[Connection, None] = {}
        self._listeners: list[Listener] = []
        self._emptied: asyncio.Event = asyncio.Event()
        self._all_parted: asyncio.Event = asyncio.Event()
        # None as long as no address has one.
        self.connection_quota: ConnectionQuota | None = None
        self.held_off = HeldOff()
        self._complaints = Complaints()
        self._farewells = Farewells(
            loop, self._clock, close=self._close, emptied=self._all_parted.set
        )
        self._handshakes = Handshakes(
            loop,
            timeout_ms=settings.headwater_tls_handshake_timeout_ms,
            agreed=self._agreed,
            departed=lambda gone: self._admission.depart(gone.listener, gone.peer_host),
        )
        self.intake = Intake(
            overlapping_requests=Bound(loop, settings.queued_max_requests),
            buffer_bytes=Bound(loop, settings.queued_max_request_bytes),
            stepwise_bytes=Bound(loop, STEPWISE_BYTES_MAX),
        )
        self._surroundings = Surroundings(
            loop=loop,
            settings=settings,
            service=service,
            intake=self.intake,
            clock=self._clock,
            attentive=self._attentive,
            departed=self._departed,
            is_crowded=crowd_on(loop),
            departures=Departures(loop),
            fair_queue=FairQueue(loop),
            complaints=self._complaints,
            close=self._close,
            part=self._farewells.part,
        )

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """Where it listens, with the real ports."""
        return [listener.endpoint for listener in self._listeners]

    @property
    def connections(self) -> Sequence[Connection]:
        return list(self._connections)

    @property
    def failed_handshakes(self) -> Mapping[str, int]:
        """How many could not agree on TLS with us, by listener."""
        return self._handshakes.failed_counts

    def bind(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Listen on all of them or none; the answer has the real ports.

        Peers can connect from now on, and wait in the backlog until `start`.
        """
        try:
            for endpoint in endpoints:
                self._listeners.append(self._listener(endpoint, endpoints))
        except BaseException:
            self._close_listeners()
            raise
        return list(self.endpoints)

    def configure(self, settings: NetworkSettings) -> None:
        """Take new limits on who may connect; nobody who is connected is cut off."""
        self._admission.configure(settings)

    def start(self) -> None:
        for listener in self._listeners:
            listener.start()

    def sweep(self, now_ms: int) -> None:
        """Time has passed."""
        for connection in list(self._attentive):
            connection.sweep(now_ms)
        self._clock.now_ms = now_ms
        self._admission.refill(now_ms)
        self._handshakes.sweep(now_ms)
        self._farewells.sweep(now_ms)
        self.held_off.sweep(now_ms)
        self._complaints.sweep()
        for listener in self._listeners:
            listener.sweep()
        for connection in self._idle.expired(now_ms):
            if connection.is_idle:
                _log.info("%s: closed, because it was idle", connection.address)
                connection.close()

    async def stop(self, *, drain_ms: int) -> None:
        """Accept no more, take no more requests, send what is owed or will be within the time."""
        self._close_listeners()
        self._handshakes.close()
        self.held_off.close()
        for connection in list(self._connections):
            connection.leave()
        self._emptied.clear()
        if self._connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), drain_ms / 1_000)
        if self._connections:
            _log.warning("%d connections were cut at the end", len(self._connections))
        for connection in list(self._connections):
            connection.close()
        await self._see_off(min(drain_ms, _FAREWELL_MS))

    async def _see_off(self, patience_ms: int) -> None:
        """Let peers read what was sent last. Those that do not hang up are idle, or asleep."""
        self._all_parted.clear()
        if self._farewells:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_parted.wait(), patience_ms / 1_000)
        self._farewells.close()

    def _close(self, channel: Channel, address: Address) -> None:
        """Close what was admitted, and count its peer out."""
        channel.close()
        self._admission.depart(address.listener, address.peer_host)

    def _departed(self, connection: Connection) -> None:
        del self._connections[connection]
        self._idle.remove(connection)
        if not self._connections:
            self._emptied.set()

    def _listener(self, endpoint: Endpoint, all_endpoints: Sequence[Endpoint]) -> Listener:
        shares_port = any(
            other is not endpoint and other.port == endpoint.port != 0 for other in all_endpoints
        )
        listening = listening_socket(endpoint, self._settings, both_families=not shares_port)
        name = endpoint.name
        return Listener(
            endpoint,
            listening,
            self._loop,
            may_accept=lambda: self._admission.may_accept(name),
            welcome=lambda accepted, host, port: self._welcome(
                accepted, Address(listener=name, peer_host=host, peer_port=port)
            ),
        )

    def _welcome(self, accepted: socket.socket, address: Address) -> None:
        if self.connection_quota is not None:
            now_ms = self._clock.now_ms
            throttle_ms = self.connection_quota.throttle_ms(address.peer_host, now_ms)
            if throttle_ms > 0:
                _log.info("%s: kept waiting by its connection_creation_rate", address)
                self.held_off.add(accepted, now_ms + throttle_ms)
                return
        refusal = self._admission.admit(address.listener, address.peer_host)
        if refusal is not None:
            _log.info("%s: refused by %s", address, refusal)
            accepted.close()
            return
        tls = self._tls.get(address.listener)
        try:
            set_options(accepted, self._settings)
            if tls is None:
                self._serve(PlainChannel(accepted), address, self._surroundings)
            else:
                self._handshakes.begin(accepted, tls, address, self._clock.now_ms)
        except OSError as error:
            # The peer may have reset it already, or the loop can watch no more of them.
            _log.info("%s: could not be served: %s", address, error)
            self._admission.depart(address.listener, address.peer_host)
            accepted.close()

    def _serve(self, channel: Channel, address: Address, surroundings: Surroundings) -> Connection:
        connection = Connection(channel, address, surroundings)
        guard = self._guards.get(address.listener)
        if guard is not None:
            guard(connection)
        self._connections[connection] = None
        self._idle.add(connection)
        return connection

    def _agreed(self, channel: TlsChannel, address: Address, principal: Principal) -> None:
        """TLS is agreed on, so the peer is served."""
        watched = replace(self._surroundings, loop=TlsWatch(self._loop, channel))
        try:
            connection = self._serve(channel, address, watched)
        except OSError as error:
            _log.info("%s: could not be served: %s", address, error)
            self._close(channel, address)
            return
        connection.requester = Requester(principal, address.peer_host)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
