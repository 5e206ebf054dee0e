"""`headwater gateway`: schema registry, REST API and console in one process.

Each has its own port, because their clients expect their paths at the root. Settings of TLS and
authentication are those of one file and apply to all three.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from headwater.cli.terminal import CommandConfig, pairs, registry_settings, settings_in
from headwater.cli.web import console, registry, rest
from headwater.cli.web.http_options import Hosts, http_addresses_of
from headwater.cli.web.registry import Brokers

if TYPE_CHECKING:
    from headwater.http_server.http_settings import HttpAddress

CANNOT_START: Final = 2
FAILED: Final = 1


class ServiceName(StrEnum):
    REGISTRY = "registry"
    REST = "rest"
    CONSOLE = "console"


_DEFAULTS: Final = {
    ServiceName.REGISTRY: registry.DEFAULT_LISTEN,
    ServiceName.REST: rest.DEFAULT_LISTEN,
    ServiceName.CONSOLE: console.DEFAULT_LISTEN,
}

app = typer.Typer(
    no_args_is_help=True, help="Schema registry, REST API and console in one process."
)


def _listen(name: ServiceName) -> object:
    return typer.Option(
        f"--{name}-listen",
        metavar="HOST:PORT",
        help=f"Address of the {name}; https://HOST:PORT for TLS. Default: {_DEFAULTS[name]}.",
        show_default=False,
    )


@app.command()
def start(
    bootstrap: Brokers = None,
    registry_listen: Annotated[str | None, _listen(ServiceName.REGISTRY)] = None,
    rest_listen: Annotated[str | None, _listen(ServiceName.REST)] = None,
    console_listen: Annotated[str | None, _listen(ServiceName.CONSOLE)] = None,
    without: Annotated[
        list[ServiceName] | None,
        typer.Option("--without", help="Leave out one of the three; repeatable."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            exists=True,
            dir_okay=False,
            help="Properties file with settings of all three under Confluent's names: TLS, "
            "authentication, `kafkastore.`, and those of the REST Proxy.",
        ),
    ] = None,
    registry_url: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="URL",
            envvar="HEADWATER_REGISTRY",
            help="URL under which REST API and console reach the schema registry; default: "
            "schema.registry.url of --command-config, or the gateway's own registry.",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Address of a broker's metrics, for the console."),
    ] = None,
    changes: Annotated[
        bool | None,
        typer.Option(
            "--changes/--read-only",
            help="Allow changes in the console; default: only on a local address.",
            show_default=False,
        ),
    ] = None,
    host: Hosts = None,
    command_config: CommandConfig = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="Client setting of the console; repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.1, help="Timeout of the registry's writes."),
    ] = 10.0,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Format of the log on standard error.")
    ] = "text",
) -> None:
    """Run schema registry, REST API and console until SIGTERM or Ctrl-C.

    Each has its own address. If one cannot start or fails, all end, and the message says which.
    """
    from headwater.cli.broker.log_format import log_to_standard_error
    from headwater.common.exceptions import HeadwaterError

    log_to_standard_error(log_format=log_format, level="info")
    # Start and stop are announced on standard output.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    names = [each for each in ServiceName if each not in (without or [])]
    if not names:
        raise typer.BadParameter("nothing is left to run", param_hint="--without")
    listens = {
        ServiceName.REGISTRY: registry_listen,
        ServiceName.REST: rest_listen,
        ServiceName.CONSOLE: console_listen,
    }
    try:
        from headwater.http_server.service_group import ServiceFailed

        given = settings_in(config)
        client = registry.kafkastore_settings(given, bootstrap, command_config)
        gateway = _Gateway(
            given=given,
            addresses=_addresses(given, names, listens, client, host or ()),
            client=client,
            registry_url=registry_url or _configured_registry(command_config),
            command_config=command_config,
            metrics=metrics or (),
            console_settings=pairs(option or [], "--option"),
            allows_changes=changes,
            timeout_s=timeout,
        )
        gateway.check_registry()
        try:
            asyncio.run(gateway.run())
        except ServiceFailed as error:
            _exit_with(str(error), FAILED if gateway.is_ready else CANNOT_START)
    except ImportError as error:
        _exit_with(f"{error.name} is not installed: pip install 'headwater[web]'")
    except HeadwaterError as error:
        _exit_with(str(error))


def _addresses(
    given: Mapping[str, str],
    names: Sequence[ServiceName],
    listens: Mapping[ServiceName, str | None],
    client: Mapping[str, object],
    hosts: Sequence[str],
) -> "dict[ServiceName, HttpAddress]":
    from headwater.common.exceptions import InvalidSetting
    from headwater.rest.rest_settings import known_names

    if "listeners" in given:
        options = ", ".join(f"--{name}-listen" for name in ServiceName)
        raise InvalidSetting(f"listeners is one address, and a gateway has three: use {options}")
    found = http_addresses_of(
        given,
        [(listens[name], _DEFAULTS[name]) for name in names],
        others_known=[*registry.known_kafkastore(given, client), *known_names(given)],
        hosts=hosts,
    )
    return dict(zip(names, found, strict=True))


def _configured_registry(command_config: Path | None) -> str | None:
    from headwater.client.serialization.schema_registry_settings import URL

    return registry_settings(command_config).get(URL)


@dataclass(slots=True, kw_only=True)
class _Gateway:
    """The services of one gateway; its registry sets `registry_url` when ready."""

    given: Mapping[str, str]
    addresses: "Mapping[ServiceName, HttpAddress]"
    client: Mapping[str, object]
    registry_url: str | None
    command_config: Path | None
    metrics: Sequence[str]
    console_settings: Mapping[str, str]
    allows_changes: bool | None
    timeout_s: float
    is_ready: bool = False
    is_console_read_only: bool = False

    @property
    def bootstrap(self) -> str:
        return str(self.client["bootstrap.servers"])

    def check_registry(self) -> None:
        """Reject a registry that its clients here could not reach by its address."""
        from headwater.common.exceptions import InvalidSetting

        own = self.addresses.get(ServiceName.REGISTRY)
        if own is None or self.registry_url is not None or len(self.addresses) == 1:
            return
        if own.context is not None or own.users is not None:
            raise InvalidSetting(
                "REST API and console are clients of the registry, which uses TLS or passwords: "
                "give --registry URL with a name in its certificate, and "
                "schema.registry.ssl.truststore.location and "
                "schema.registry.basic.auth.user.info in --command-config"
            )

    async def run(self) -> None:
        from headwater.http_server.service_group import GroupedService, run_services

        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, ended.set)
        serve = {
            ServiceName.REGISTRY: self._registry,
            ServiceName.REST: self._rest,
            ServiceName.CONSOLE: self._console,
        }
        services = [GroupedService(name, serve[name]) for name in self.addresses]
        await run_services(services, ended, ready=self._announce)

    def _announce(self, urls: Mapping[str, str]) -> None:
        self.is_ready = True
        served = " ".join(f"{name}={url}" for name, url in urls.items())
        only = ", console read only" if self.is_console_read_only else ""
        line = f"headwater gateway ready on {served} (brokers {self.bootstrap}{only})"
        print(line, flush=True)

    async def _registry(self, ready: Callable[[str], None], ended: asyncio.Event) -> None:
        from headwater.registry.registry_process import serve

        def announce(url: str) -> None:
            self.registry_url = self.registry_url or url
            ready(url)

        await registry.expect_broker(self.client)
        await serve(
            self.bootstrap,
            self.addresses[ServiceName.REGISTRY],
            ready=announce,
            ended=ended,
            timeout_s=self.timeout_s,
            client_settings=self.client,
        )

    async def _rest(self, ready: Callable[[str], None], ended: asyncio.Event) -> None:
        from headwater.rest.rest_process import serve

        options = rest.rest_options(
            self.given,
            self.addresses[ServiceName.REST],
            self.bootstrap,
            self.registry_url,
            self.command_config,
        )
        await serve(options, ready=ready, ended=ended)

    async def _console(self, ready: Callable[[str], None], ended: asyncio.Event) -> None:
        from headwater.console.console_process import Ready, serve

        def announce(found: Ready) -> None:
            self.is_console_read_only = found.is_read_only
            ready(found.url)

        options = console.console_options(
            self.addresses[ServiceName.CONSOLE],
            self.bootstrap,
            self.registry_url,
            self.metrics,
            self.command_config,
            self.console_settings,
            allows_changes=self.allows_changes,
        )
        await serve(options, ready=announce, ended=ended)


def _exit_with(reason: str, code: int = CANNOT_START) -> None:
    typer.echo(f"headwater: {reason}", err=True)
    raise typer.Exit(code)
