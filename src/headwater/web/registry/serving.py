"""A registry as a process: the store, the HTTP port, and a clean end.

What a reader would get wrong: the port is bound before anything else is done, so that a taken one
is told at once, but nobody is answered before the topic has been read.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace

import uvicorn

from headwater.net.endpoint import Endpoint, parse_address
from headwater.net.listener import listening_socket
from headwater.net.settings import NetworkSettings
from headwater.web.registry.app import REQUESTS_MAX, application
from headwater.web.registry.paths import PATHS
from headwater.web.registry.store import SchemaStore

_CONNECTIONS_MAX = 4 * REQUESTS_MAX
_GRACE_S = 5


async def serve(
    bootstrap_servers: str,
    listen: str,
    *,
    ready: Callable[[Endpoint], object],
    ended: asyncio.Event,
    timeout_s: float = 10.0,
) -> None:
    """Serve until `ended` is set. Raises `CannotListen`, or a `KafkaError` if no broker answers."""
    endpoint = parse_address(listen, name="HTTP")
    listener = listening_socket(endpoint, NetworkSettings(), both_families=True)
    bound = replace(endpoint, port=listener.getsockname()[1])
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
        config = uvicorn.Config(
            application(store, PATHS),
            log_config=None,
            access_log=False,
            lifespan="off",
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
            ws="none",
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        ready(bound)
        await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        waiting.cancel()
        listener.close()
        await store.close()


class _Server(uvicorn.Server):
    """Signals are for whoever runs the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
