"""`headwater rest`: run the REST API."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    CommandConfig,
    client_settings,
    registry_settings,
    settings_in,
)
from headwater.cli.web.http_options import Hosts, HttpConfigFile, Listen, http_address_of
from headwater.cli.web.registry import Brokers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.http_server.http_settings import HttpAddress
    from headwater.rest.rest_process import RestOptions

CANNOT_START: Final = 2
DEFAULT_LISTEN: Final = "127.0.0.1:8082"

app = typer.Typer(no_args_is_help=True, help="REST API over Kafka, as Confluent's REST Proxy.")


@app.command()
def start(
    bootstrap: Brokers = None,
    listen: Listen = None,
    config: HttpConfigFile = None,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar="HEADWATER_REGISTRY", help="URL of the schema registry."
        ),
    ] = None,
    host: Hosts = None,
    command_config: CommandConfig = None,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(help="Format of the log on standard error: text or json."),
    ] = "text",
) -> None:
    """Run the REST API until SIGTERM or Ctrl-C.

    --config accepts the properties file of Confluent's REST Proxy. Its settings with the prefixes
    `client.`, `producer.`, `consumer.` and `admin.` are used for Kafka clients.
    """
    from headwater.cli.broker.log_format import log_to_standard_error
    from headwater.common.exceptions import HeadwaterError

    log_to_standard_error(log_format=log_format, level="info")
    # Start and stop are announced on standard output.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        from headwater.rest.rest_settings import known_names

        given = settings_in(config)
        address = http_address_of(
            given, listen, DEFAULT_LISTEN, others_known=known_names(given), hosts=host or ()
        )
        options = rest_options(given, address, bootstrap, registry, command_config)
        asyncio.run(_run(options))
    except ImportError as error:
        _complain(f"{error.name} is not installed: pip install 'headwater[web]'")
    except HeadwaterError as error:
        _complain(str(error))


def rest_options(
    given: "Mapping[str, str]",
    address: "HttpAddress",
    bootstrap: str | None,
    registry: str | None,
    command_config: Path | None,
) -> "RestOptions":
    """Options of the REST API from the settings of a file and the command line."""
    from headwater.client.serialization.schema_registry_settings import URL
    from headwater.client.serialization.schema_registry_settings import (
        registry_settings as registry_part,
    )
    from headwater.client.settings import shared_settings
    from headwater.rest.rest_process import RestOptions
    from headwater.rest.rest_settings import bootstrap_of, read_rest_settings

    in_file = {name: value for name, value in given.items() if name.startswith("schema.registry.")}
    for_registry = {**registry_part(in_file), **registry_settings(command_config)}
    chosen = bootstrap or bootstrap_of(given) or DEFAULT_BOOTSTRAP
    return RestOptions(
        bootstrap=chosen,
        http_address=address,
        settings=read_rest_settings(given),
        client_settings=shared_settings(client_settings(chosen, command_config)),
        prefixed_settings=given,
        registry_url=registry or for_registry.get(URL),
        registry_settings=for_registry,
    )


async def _run(options: "RestOptions") -> None:
    from headwater.rest.rest_process import serve

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)

    def announce(url: str) -> None:
        print(f"headwater rest ready on {url} (brokers {options.bootstrap})", flush=True)

    await serve(options, ready=announce, ended=ended)


def _complain(reason: str) -> None:
    typer.echo(f"headwater: {reason}", err=True)
    raise typer.Exit(CANNOT_START)
