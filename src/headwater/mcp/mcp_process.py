"""Run the protocol server on standard input and output, or over HTTP.

Note: nothing is connected at the start. Without a cluster, tools answer with errors.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from headwater.common.exceptions import InvalidSetting
from headwater.console.connections import Connections
from headwater.http_server.http_port import HttpPort
from headwater.http_server.http_settings import HttpAddress
from headwater.http_server.request_guard import ANY_HOST, Guard, is_loopback
from headwater.mcp.bounded_answers import AnswerLimits
from headwater.mcp.closable_input import ClosableInput
from headwater.mcp.cluster_tools import ClusterTools
from headwater.mcp.http_access import REQUESTS_MAX, BearerToken, HttpAccess
from headwater.mcp.mcp_server import mcp_server
from headwater.mcp.sql_tool import SqlAccess
from headwater.mcp.write_tools import WriteTools
from headwater.network.system_clock import SystemClock

PATH: Final = "/mcp"
_CONNECTIONS_MAX: Final = 4 * REQUESTS_MAX
_UNAUTHORIZED: Final = b'{"error":"Unauthorized: user and password are needed"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """Options of the command line."""

    bootstrap: str
    client_settings: Mapping[str, object] = field(default_factory=dict)
    registry_url: str | None = None
    registry_settings: Mapping[str, str] = field(default_factory=dict)
    limits: AnswerLimits = field(default_factory=AnswerLimits)
    allows_writes: bool = False


async def serve_stdio(options: McpOptions, *, ended: asyncio.Event) -> None:
    """Serve one client until it closes standard input, or until `ended` is set."""
    with ClosableInput() as standard_input:
        async with _servers(options) as (server, _):
            serving = asyncio.create_task(server.run_stdio_async())
            waiting = asyncio.create_task(ended.wait())
            await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            await asyncio.to_thread(standard_input.close)
            await serving


async def serve_http(
    options: McpOptions,
    address: HttpAddress,
    token: BearerToken | None,
    *,
    ready: Callable[[str], object],
    ended: asyncio.Event,
) -> None:
    """Serve until `ended` is set; call `ready` with the URL of the endpoint.

    Each request stands alone: there are no sessions that another client could take over. Raises
    `CannotListen`, or `InvalidSetting` for an address that is reachable without authentication.
    """
    if address.users is not None and token is not None:
        raise InvalidSetting("give either --token-file or authentication.method=BASIC")
    with HttpPort(address, unauthorized_response=_UNAUTHORIZED, kind="application/json") as port:
        if address.users is None and token is None and not is_loopback(port.endpoint.host):
            raise InvalidSetting(
                f"{port.endpoint.address} can be reached from other machines: give --token-file "
                "FILE, or authentication.method=BASIC in --config, or listen on 127.0.0.1"
            )
        # With TLS, browsers reject other names' certificates.
        hosts = address.hosts if address.context is None else frozenset({ANY_HOST})
        guard = Guard(service="MCP server", hosts=hosts)
        async with (
            _servers(options) as (server, read_only),
            _application(server) as application,
            _application(read_only) as viewer_application,
        ):
            access = HttpAccess(application, viewer_application, guard, token)
            serving = asyncio.create_task(
                port.serve(access, ended, connections_max=_CONNECTIONS_MAX)
            )
            ready(f"{port.url}{PATH}")
            await serving


@asynccontextmanager
async def _application(server: MCPServer[Any]) -> AsyncIterator[Starlette]:
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        # `HttpAccess` checks host and origin, with the rules of all our HTTP ports.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    async with server.session_manager.run():
        yield application


@asynccontextmanager
async def _servers(options: McpOptions) -> AsyncIterator[tuple[MCPServer[Any], MCPServer[Any]]]:
    """The server with the tools that the options allow, and one that only reads."""
    connections = Connections(
        options.bootstrap,
        {"client.id": "headwater-mcp", **options.client_settings},
        registry_url=options.registry_url,
        registry_settings=options.registry_settings,
    )
    reading = ClusterTools(
        connections,
        SystemClock(),
        options.limits,
        SqlAccess(
            bootstrap=options.bootstrap,
            settings=options.client_settings,
            registry_url=options.registry_url,
            registry_settings=options.registry_settings,
        ),
    )
    writing = WriteTools(connections) if options.allows_writes else None
    try:
        yield (
            mcp_server(options.bootstrap, reading, writing, options.limits),
            mcp_server(options.bootstrap, reading, None, options.limits),
        )
    finally:
        await connections.close()
