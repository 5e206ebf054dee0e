"""`headwater console`: run the web console."""

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    client_settings,
    pairs,
    registry_settings,
    settings_in,
)
from headwater.cli.web.http_options import Hosts, HttpConfigFile, Listen, http_address_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from headwater.console.console_process import ConsoleOptions
    from headwater.http_server.http_settings import HttpAddress

CANNOT_START: Final = 2
DEFAULT_LISTEN: Final = "127.0.0.1:8080"

app = typer.Typer(no_args_is_help=True, help="Web console for a cluster.")


@app.command()
def start(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    listen: Listen = None,
    config: HttpConfigFile = None,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar="HEADWATER_REGISTRY", help="URL of the schema registry."
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of a broker's metrics; replaces the search for them, so give it for "
            "every broker.",
        ),
    ] = None,
    changes: Annotated[
        bool | None,
        typer.Option(
            "--changes/--read-only",
            help="Allow changes to the cluster; default: only when listening on a local address.",
            show_default=False,
        ),
    ] = None,
    host: Hosts = None,
    command_config: CommandConfig = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="Client setting; repeatable."),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(
            help="Format of the log on standard error, text or json. The log has a line per change."
        ),
    ] = "text",
) -> None:
    """Run the web console until SIGTERM or Ctrl-C."""
    from headwater.cli.broker.log_format import log_to_standard_error
    from headwater.common.exceptions import HeadwaterError

    log_to_standard_error(log_format=log_format, level="info")
    # Start and stop are announced on standard output.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        options = console_options(
            http_address_of(settings_in(config), listen, DEFAULT_LISTEN, hosts=host or ()),
            bootstrap,
            registry,
            metrics or (),
            command_config,
            pairs(option or [], "--option"),
            allows_changes=changes,
        )
        asyncio.run(_run(options))
    except ImportError as error:
        _exit_with(f"{error.name} is not installed: pip install 'headwater[web]'")
    except HeadwaterError as error:
        _exit_with(str(error))


def console_options(
    address: "HttpAddress",
    bootstrap: str,
    registry: str | None,
    metrics: "Sequence[str]",
    command_config: "Path | None",
    settings: "Mapping[str, str]",
    *,
    allows_changes: bool | None,
) -> "ConsoleOptions":
    """Options of the console; `settings` are client settings of the command line."""
    from headwater.client.serialization.schema_registry_settings import URL
    from headwater.client.settings import shared_settings
    from headwater.console.console_process import ConsoleOptions

    for_registry = registry_settings(command_config)
    return ConsoleOptions(
        bootstrap=bootstrap,
        http_address=address,
        registry_url=registry or for_registry.get(URL),
        registry_settings=for_registry,
        metrics=tuple(metrics),
        allows_changes=allows_changes,
        client_settings={
            # Leave out settings of producers only.
            **shared_settings(client_settings(bootstrap, command_config)),
            **settings,
        },
    )


async def _run(options: "ConsoleOptions") -> None:
    from headwater.console.console_process import Ready, serve

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)

    def announce(ready: Ready) -> None:
        only = ", read only" if ready.is_read_only else ""
        line = f"headwater console ready on {ready.url} (brokers {options.bootstrap}{only})"
        print(line, flush=True)

    await serve(options, ready=announce, ended=ended)


def _exit_with(reason: str) -> None:
    typer.echo(f"headwater: {reason}", err=True)
    raise typer.Exit(CANNOT_START)
