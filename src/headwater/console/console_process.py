"""Run a console: its clients, its HTTP port, and a clean shutdown."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from headwater.console.assets import Assets
from headwater.console.connections import Connections
from headwater.console.context import Console
from headwater.console.history.metrics_addresses import parse_location
from headwater.console.history.sampler import Sampler
from headwater.console.routes import PATHS
from headwater.console.server import REQUESTS_MAX, application
from headwater.console.views.cluster_view import FRESH_MS, CachedView, cluster_view
from headwater.console.views.live_tail import TAILS_MAX, Tails
from headwater.console.views.pipelines import RunsReader
from headwater.console.views.record_search import RecordSearches
from headwater.http_server.http_port import HttpPort
from headwater.http_server.http_settings import HttpAddress
from headwater.http_server.request_guard import is_loopback
from headwater.network.system_clock import SystemClock, SystemRandom

_CONNECTIONS_MAX: Final = 4 * (REQUESTS_MAX + TAILS_MAX)
_TOKEN_BYTES: Final = 32
_UNAUTHORIZED: Final = b'{"error": "User and password are required."}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """Options of the command line."""

    bootstrap: str
    http_address: HttpAddress
    registry_url: str | None = None
    registry_settings: Mapping[str, object] = field(default_factory=dict)
    metrics: Sequence[str] = ()
    allows_changes: bool | None = None
    """None: only if the console listens on a loopback address."""
    client_settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """URL of the running console, and whether it is read-only."""

    url: str
    is_read_only: bool


async def serve(
    options: ConsoleOptions, *, ready: Callable[[Ready], object], ended: asyncio.Event
) -> None:
    """Serve until `ended` is set. Raises `CannotListen` or `InvalidSetting`."""
    clock = SystemClock()
    metrics = tuple(map(parse_location, options.metrics))
    with HttpPort(
        options.http_address, unauthorized_response=_UNAUTHORIZED, kind="application/json"
    ) as port:
        connections = Connections(
            options.bootstrap,
            options.client_settings,
            registry_url=options.registry_url,
            registry_settings=options.registry_settings,
        )
        allows_changes = options.allows_changes
        if allows_changes is None:
            allows_changes = is_loopback(port.endpoint.host)
        cluster_views = CachedView(
            partial(cluster_view, connections.admin), clock, fresh_ms=FRESH_MS
        )
        console = Console(
            connections=connections,
            cluster_views=cluster_views,
            searches=RecordSearches(connections, clock),
            tails=Tails(connections, clock, ended),
            runs=RunsReader(connections.consumer, connections.producer, clock),
            sampler=Sampler(connections.admin, cluster_views, clock, metrics=metrics),
            clock=clock,
            token=SystemRandom().bytes(_TOKEN_BYTES).hex(),
            is_read_only=not allows_changes,
            hosts=options.http_address.hosts,
        )
        sampling = asyncio.create_task(console.sampler.run())
        try:
            app = application(console, PATHS, Assets())
            serving = asyncio.create_task(port.serve(app, ended, connections_max=_CONNECTIONS_MAX))
            ready(Ready(url=port.url, is_read_only=console.is_read_only))
            await serving
        finally:
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling
            await connections.close()
