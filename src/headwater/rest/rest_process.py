"""Run the REST API: its clients, its HTTP port, and a clean shutdown.

Note: nothing is connected at the start. Without a cluster, requests are answered with errors.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import headwater
from headwater.client.schema_registry import SchemaRegistry
from headwater.http_server.http_port import HttpPort
from headwater.http_server.http_settings import HttpAddress
from headwater.http_server.request_guard import ANY_HOST, Guard
from headwater.network.system_clock import SystemClock, SystemRandom
from headwater.rest.consumer_instances import ConsumerInstances
from headwater.rest.formats.schema_formats import SchemaFormats
from headwater.rest.media_types import JSON
from headwater.rest.openapi import openapi_document
from headwater.rest.rest_clients import RestClients
from headwater.rest.rest_request import RestContext
from headwater.rest.rest_settings import RestSettings
from headwater.rest.routes import ROUTES
from headwater.rest.server import application

_REGISTRY_TIMEOUT_S: Final = 5.0
_UNAUTHORIZED: Final = b'{"error_code":401,"message":"Unauthorized: user and password are needed"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOptions:
    """Options of the command line and of the properties file."""

    bootstrap: str
    http_address: HttpAddress
    settings: RestSettings = field(default_factory=RestSettings)
    client_settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of all Kafka clients, under Kafka's names."""
    prefixed_settings: Mapping[str, object] = field(default_factory=dict)
    """Settings with the prefixes `client.`, `producer.`, `consumer.` and `admin.`."""
    registry_url: str | None = None
    registry_settings: Mapping[str, object] = field(default_factory=dict)


async def serve(
    options: RestOptions, *, ready: Callable[[str], object], ended: asyncio.Event
) -> None:
    """Serve until `ended` is set; call `ready` with the URL.

    Raises `CannotListen` or `InvalidSetting`.
    """
    settings, address = options.settings, options.http_address
    clock = SystemClock()
    with HttpPort(address, unauthorized_response=_UNAUTHORIZED, kind=JSON) as port:
        clients = RestClients(
            options.bootstrap,
            options.prefixed_settings,
            options.client_settings,
            SchemaFormats(_registry(options)),
        )
        instances = ConsumerInstances(
            clock,
            timeout_ms=settings.consumer_instance_timeout_ms,
            instances_max=settings.headwater_consumer_instances_max,
        )
        context = RestContext(
            settings=settings,
            clients=clients,
            instances=instances,
            clock=clock,
            rng=SystemRandom(),
        )
        expiring = asyncio.create_task(instances.run_expiry())
        try:
            app = application(
                context,
                ROUTES,
                _guard(address),
                scheme=address.scheme,
                document=openapi_document(ROUTES, version=headwater.__version__),
            )
            connections_max = 4 * (settings.headwater_requests_max + settings.headwater_streams_max)
            serving = asyncio.create_task(port.serve(app, ended, connections_max=connections_max))
            ready(port.url)
            await serving
        finally:
            expiring.cancel()
            with suppress(asyncio.CancelledError):
                await expiring
            await instances.close()
            await clients.close()


def _registry(options: RestOptions) -> SchemaRegistry | None:
    if not options.registry_url:
        return None
    return SchemaRegistry(
        options.registry_url, options.registry_settings, timeout=_REGISTRY_TIMEOUT_S
    )


def _guard(address: HttpAddress) -> Guard:
    """Allow any Host header with TLS: browsers reject other names' certificates."""
    hosts = address.hosts if address.context is None else frozenset({ANY_HOST})
    return Guard(service="REST API", hosts=hosts)
