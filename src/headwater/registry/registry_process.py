"""Run a registry: the schema store, the HTTP port, and a clean shutdown.

Note: the port is bound first, so that a port in use is reported at once, but requests are accepted
only after `_schemas` has been read.
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
_UNAUTHORIZED: Final = b'{"error_code":401,"message":"Unauthorized: user and password are needed"}'


def _guard(address: HttpAddress) -> Guard:
    """Allow any Host header with TLS: browsers reject other names' certificates."""
    hosts = address.hosts if address.context is None else frozenset({ANY_HOST})
    return Guard(service="registry", hosts=hosts)


async def serve(
    bootstrap_servers: str,
    address: HttpAddress,
    *,
    ready: Callable[[str], object],
    ended: asyncio.Event,
    timeout_s: float = 10.0,
    client_settings: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Serve until `ended` is set; call `ready` with the URL.

    Raises `CannotListen`, or a `KafkaError` if no broker answers. `client_settings` apply to all
    clients, for example for authentication.
    """
    with HttpPort(address, unauthorized_response=_UNAUTHORIZED, kind=V1) as port:
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
            app = application(store, PATHS, _guard(address))
            serving = asyncio.create_task(port.serve(app, ended, connections_max=_CONNECTIONS_MAX))
            ready(port.url)
            await serving
        finally:
            waiting.cancel()
            await store.close()
