"""`headwater mcp`: serve the Model Context Protocol."""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    client_settings,
    is_terminal,
    registry_settings,
    settings_in,
)
from headwater.cli.web.http_options import Hosts, HttpConfigFile, http_address_of

if TYPE_CHECKING:
    from headwater.mcp.bounded_answers import AnswerLimits
    from headwater.mcp.mcp_process import McpOptions

CANNOT_START: Final = 2
DEFAULT_LISTEN: Final = "127.0.0.1:8090"
_MODULES: Final = ("mcp", "mcp_types", "pydantic", "starlette", "uvicorn")


def mcp(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    stdio: Annotated[
        bool,
        typer.Option("--stdio", help="Serve one client on standard input and output: default."),
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve clients over HTTP, at the path /mcp; https://HOST:PORT for TLS.",
        ),
    ] = None,
    allow_writes: Annotated[
        bool,
        typer.Option("--allow-writes", help="Add tools that produce records and create topics."),
    ] = False,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar="HEADWATER_REGISTRY", help="URL of the schema registry."
        ),
    ] = None,
    max_rows: Annotated[
        int, typer.Option("--max-rows", min=1, max=200, help="Rows in an answer.")
    ] = 100,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", min=1_000, help="Bytes of an answer.")
    ] = 50_000,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, max=300.0, help="Time for an answer.")
    ] = 20.0,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            exists=True,
            dir_okay=False,
            help="File with the bearer token that HTTP clients must send.",
        ),
    ] = None,
    config: HttpConfigFile = None,
    host: Hosts = None,
    command_config: CommandConfig = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Format of the log on standard error.")
    ] = "text",
) -> None:
    """Serve a cluster as tools for language models (Model Context Protocol).

    Tools only read, unless --allow-writes is given. They act with the credentials of
    --command-config.
    """
    from headwater.cli.broker.log_format import log_to_standard_error
    from headwater.common.exceptions import HeadwaterError

    if http is None and (token_file or config or host):
        raise typer.BadParameter("--token-file, --config and --host need --http")
    if http is not None and stdio:
        raise typer.BadParameter("give either --stdio or --http")
    log_to_standard_error(log_format=log_format, level="info")
    for name in ("uvicorn", "mcp"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        from headwater.mcp.bounded_answers import AnswerLimits

        limits = AnswerLimits(rows=max_rows, bytes=max_bytes, seconds=timeout)
        options = _options(bootstrap, registry, command_config, limits, allows_writes=allow_writes)
        if http is None:
            asyncio.run(_run_stdio(options))
        else:
            asyncio.run(_run_http(options, http, config, token_file, host or []))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _MODULES:
            raise
        _exit_with(f"{error.name} is not installed: pip install 'headwater[mcp]'")
    except HeadwaterError as error:
        _exit_with(str(error))


def _options(
    bootstrap: str,
    registry: str | None,
    command_config: Path | None,
    limits: "AnswerLimits",
    *,
    allows_writes: bool,
) -> "McpOptions":
    from headwater.client.serialization.schema_registry_settings import URL
    from headwater.client.settings import shared_settings
    from headwater.mcp.mcp_process import McpOptions

    for_registry = registry_settings(command_config)
    return McpOptions(
        bootstrap=bootstrap,
        client_settings=shared_settings(client_settings(bootstrap, command_config)),
        registry_url=registry or for_registry.get(URL),
        registry_settings=for_registry,
        limits=limits,
        allows_writes=allows_writes,
    )


async def _run_stdio(options: "McpOptions") -> None:
    from headwater.mcp.mcp_process import serve_stdio

    if is_terminal(sys.stdin):
        typer.echo(
            "headwater: an MCP client, such as an assistant or an editor, starts this command and "
            "writes to it; Ctrl-C ends it",
            err=True,
        )
    await serve_stdio(options, ended=_stop_event())


async def _run_http(
    options: "McpOptions",
    http: str,
    config: Path | None,
    token_file: Path | None,
    hosts: list[str],
) -> None:
    from headwater.http_server.request_guard import is_loopback
    from headwater.mcp.http_access import BearerToken
    from headwater.mcp.mcp_process import serve_http

    address = http_address_of(settings_in(config), http, DEFAULT_LISTEN, hosts=hosts)
    token = None if token_file is None else BearerToken.read(token_file)
    if (
        token is not None
        and address.context is None
        and not is_loopback(address.listen.rpartition(":")[0].strip("[]"))
    ):
        typer.echo("headwater: the token is sent unencrypted; listen on https://", err=True)
    access = "reads and writes" if options.allows_writes else "read only"

    def announce(url: str) -> None:
        print(f"headwater mcp ready on {url} (brokers {options.bootstrap}, {access})", flush=True)

    await serve_http(options, address, token, ready=announce, ended=_stop_event())


def _stop_event() -> asyncio.Event:
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    return ended


def _exit_with(reason: str) -> None:
    typer.echo(f"headwater: {reason}", err=True)
    raise typer.Exit(CANNOT_START)
