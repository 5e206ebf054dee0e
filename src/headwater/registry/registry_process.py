"""A registry as a process: the store, the HTTP port, and a clean end.

What a reader would get wrong: the port is bound before anything else is done, so that a taken one
is told at once, but nobody is answered before the topic has been read.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from headwater.http_server.http_port import HttpPort
from headwater.http_server.http_settings import HttpAddress
from headwater.http_server.request_guard import ANY_HOST, Guard
from headwater.registry.routes import PATHS
from headwater.registry.schema_store import SchemaStore
from headwater.registry.server import REQUESTS_MAX, V1, application

_CONNECTIONS_MAX: Final = 4 * REQUESTS_MAX
_STRANGERS: Final = b'{"error_code":401,"message":"Unauthorized: user and password are needed"}'


def _guard(door: HttpAddress) -> Guard:
    """Under TLS any name is served: a browser takes no certificate of ours for another name."""
    hosts = door.hosts if door.context is None else frozenset({ANY_HOST})
    return Guard(service="registry", hosts=hosts)


async def serve(
    bootstrap_servers: str,
    door: HttpAddress,
    *,
    ready: Callable[[str], object],
    ended: asyncio.Event,
    timeout_s: float = 10.0,
    client_settings: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Serve until `ended` is set; `ready` is told the URL.

    Raises `CannotListen`, or a `KafkaError` if no broker answers. `client_settings` are those that
    all clients have, such as a login.
    """
    with HttpPort(door, refusal=_STRANGERS, kind=V1) as port:
        store = SchemaStore(bootstrap_servers, timeout_s=timeout_s, client_settings=client_settings)
        waiting = asyncio.create_task(ended.wait())
        try:
            starting = asyncio.create_task(store.start())
            await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
            if ended.is_set():
                starting.cancel()
                await asyncio.wait((starting,))
                return
            await starting
            app = application(store, PATHS, _guard(door))
            serving = asyncio.create_task(port.serve(app, ended, connections_max=_CONNECTIONS_MAX))
            ready(port.url)
            await serving
        finally:
            waiting.cancel()
            await store.close()
