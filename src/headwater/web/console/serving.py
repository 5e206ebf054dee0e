"""A console as a process: its clients, its HTTP port, and a clean end."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from headwater.net.system import SystemClock, SystemDice
from headwater.web.console.assets import Assets
from headwater.web.console.connections import Connections
from headwater.web.console.context import Console
from headwater.web.console.door import REQUESTS_MAX, application
from headwater.web.console.paths import PATHS
from headwater.web.console.record_search import RecordSearches
from headwater.web.console.survey import FRESH_MS, Remembered, survey_of
from headwater.web.console.tailing import TAILS_MAX, Tails
from headwater.web.console.throughput import MetricsWatch
from headwater.web.door_settings import Door
from headwater.web.guard import is_loopback
from headwater.web.serving import HttpPort

_CONNECTIONS_MAX: Final = 4 * (REQUESTS_MAX + TAILS_MAX)
_TOKEN_BYTES: Final = 32
_STRANGERS: Final = b'{"error": "This console wants user and password."}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """What a console is told at its start."""

    bootstrap: str
    door: Door
    registry_url: str | None = None
    registry_settings: Mapping[str, object] = field(default_factory=dict)
    metrics: Sequence[str] = ()
    allows_changes: bool | None = None
    """None: as long as only this machine reaches it."""
    client_settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Where a console is, and whether it only reads."""

    url: str
    is_read_only: bool


async def serve(
    options: ConsoleOptions, *, ready: Callable[[Ready], object], ended: asyncio.Event
) -> None:
    """Serve until `ended` is set. Raises `CannotListen`, or `InvalidSetting`."""
    clock = SystemClock()
    watch = MetricsWatch(options.metrics, clock)
    with HttpPort(options.door, refusal=_STRANGERS, kind="application/json") as port:
        connections = Connections(
            options.bootstrap,
            options.client_settings,
            registry_url=options.registry_url,
            registry_settings=options.registry_settings,
        )
        allows_changes = options.allows_changes
        if allows_changes is None:
            allows_changes = is_loopback(port.endpoint.host)
        console = Console(
            connections=connections,
            survey=Remembered(partial(survey_of, connections.admin), clock, fresh_ms=FRESH_MS),
            searches=RecordSearches(connections, clock),
            tails=Tails(connections, clock, ended),
            watch=watch,
            clock=clock,
            token=SystemDice().bytes(_TOKEN_BYTES).hex(),
            is_read_only=not allows_changes,
            hosts=options.door.hosts,
        )
        watching = asyncio.create_task(watch.run())
        try:
            app = application(console, PATHS, Assets())
            serving = asyncio.create_task(port.serve(app, ended, connections_max=_CONNECTIONS_MAX))
            ready(Ready(url=port.url, is_read_only=console.is_read_only))
            await serving
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            await connections.close()
