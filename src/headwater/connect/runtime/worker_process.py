"""Run a worker: its HTTP port, its topics and its group, and a clean shutdown.

Note: the port is bound first, so that a port in use is reported at once, but requests are accepted
only after the topics have been read.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headwater.connect.runtime.connect_records import ConnectorConfigRecord
from headwater.connect.runtime.connect_store import ConnectChange
from headwater.connect.runtime.connector_config import NAME
from headwater.connect.runtime.rest.routes import ROUTES
from headwater.connect.runtime.rest.server import JSON, application
from headwater.connect.runtime.worker import ConnectWorker
from headwater.connect.runtime.worker_settings import WorkerFile
from headwater.http_server.http_port import HttpPort
from headwater.http_server.http_settings import HttpAddress
from headwater.http_server.request_guard import ANY_HOST, Guard
from headwater.network.system_clock import SystemClock

_UNAUTHORIZED: Final = b'{"error_code":401,"message":"User cannot access the resource."}'


async def serve(
    file: WorkerFile,
    address: HttpAddress,
    connectors: Sequence[Mapping[str, str]],
    *,
    ready: Callable[[str], object],
    ended: asyncio.Event,
) -> None:
    """Serve until `ended` is set; call `ready` with the URL.

    `connectors` are created or changed at the start. Raises `CannotListen`, `InvalidSetting`, or
    a `KafkaError` if no broker answers.
    """
    with HttpPort(address, unauthorized_response=_UNAUTHORIZED, kind=JSON) as port:
        settings = file.settings
        host = settings.rest_advertised_host_name or port.endpoint.host
        number = settings.rest_advertised_port or port.endpoint.port
        worker = ConnectWorker(file, f"{host}:{number}", SystemClock())
        waiting = asyncio.create_task(ended.wait())
        try:
            starting = asyncio.create_task(_start(worker, connectors))
            await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.wait((starting,))
                return
            await starting
            app = application(worker, ROUTES, _guard(address))
            connections_max = 4 * settings.headwater_requests_max
            serving = asyncio.create_task(port.serve(app, ended, connections_max=connections_max))
            ready(port.url)
            await serving
        finally:
            waiting.cancel()
            await worker.close()


async def _start(worker: ConnectWorker, connectors: Sequence[Mapping[str, str]]) -> None:
    await worker.start()
    for config in connectors:
        record = ConnectorConfigRecord(config[NAME], config)
        await worker.store.change(
            lambda state, record=record: ConnectChange(  # type: ignore[misc]
                [] if state.configs.get(record.connector) == record.properties else [record]
            )
        )


def _guard(address: HttpAddress) -> Guard:
    """Allow any Host header with TLS: browsers reject other names' certificates."""
    hosts = address.hosts if address.context is None else frozenset({ANY_HOST})
    return Guard(service="Connect worker", hosts=hosts)
