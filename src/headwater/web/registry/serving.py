"""A registry as a process: the store, the HTTP port, and a clean end.

What a reader would get wrong: the port is bound before anything else is done, so that a taken one
is told at once, but nobody is answered before the topic has been read.
"""

import asyncio
from collections.abc import Callable

from headwater.net.endpoint import Endpoint
from headwater.web.registry.app import REQUESTS_MAX, application
from headwater.web.registry.paths import PATHS
from headwater.web.registry.store import SchemaStore
from headwater.web.serving import HttpPort

_CONNECTIONS_MAX = 4 * REQUESTS_MAX


async def serve(
    bootstrap_servers: str,
    listen: str,
    *,
    ready: Callable[[Endpoint], object],
    ended: asyncio.Event,
    timeout_s: float = 10.0,
) -> None:
    """Serve until `ended` is set. Raises `CannotListen`, or a `KafkaError` if no broker answers."""
    with HttpPort(listen) as port:
        store = SchemaStore(bootstrap_servers, timeout_s=timeout_s)
        waiting = asyncio.create_task(ended.wait())
        try:
            starting = asyncio.create_task(store.start())
            await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
            if ended.is_set():
                starting.cancel()
                await asyncio.wait((starting,))
                return
            await starting
            app = application(store, PATHS)
            serving = asyncio.create_task(port.serve(app, ended, connections_max=_CONNECTIONS_MAX))
            ready(port.endpoint)
            await serving
        finally:
            waiting.cancel()
            await store.close()
