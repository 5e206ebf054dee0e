"""`headwater connect start`: run a Connect worker."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from headwater.cli.terminal import settings_in
from headwater.cli.web.http_options import Hosts, Listen, http_address_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.connect.runtime.worker_settings import WorkerFile
    from headwater.http_server.http_settings import HttpAddress

CANNOT_START: Final = 2
_FIRST_ANSWER_S: Final = 5.0


def start(
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            exists=True,
            dir_okay=False,
            help="Properties file of the worker, as for Kafka's connect-distributed.",
        ),
    ],
    connector: Annotated[
        list[Path] | None,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="Files of connectors to create, as properties or JSON.",
        ),
    ] = None,
    listen: Listen = None,
    host: Hosts = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Format of the log on standard error.")
    ] = "text",
) -> None:
    """Run a Connect worker with Kafka Connect's REST API until SIGTERM or Ctrl-C.

    Connectors, their states and offsets are kept in topics, so that another worker with the same
    group.id continues where this one stops.
    """
    from headwater.cli.broker.log_format import log_to_standard_error
    from headwater.common.exceptions import HeadwaterError

    log_to_standard_error(log_format=log_format, level="info")
    # Start and stop are announced on standard output.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        from headwater.connect.runtime.connector_files import read_connector_file
        from headwater.connect.runtime.worker_settings import DEFAULT_LISTEN, read_worker_file

        file = read_worker_file(settings_in(config))
        address = http_address_of(file.http, listen, DEFAULT_LISTEN, hosts=host or [])
        connectors = [read_connector_file(each) for each in connector or ()]
        asyncio.run(_run(file, address, connectors))
    except ImportError as error:
        _complain(f"{error.name} is not installed: pip install 'headwater[web]'")
    except HeadwaterError as error:
        _complain(str(error))


async def _run(
    file: "WorkerFile", address: "HttpAddress", connectors: "Sequence[Mapping[str, str]]"
) -> None:
    from headwater.client.aio import Admin
    from headwater.client.errors import KafkaError, KafkaTimeout
    from headwater.client.network.retries import last_kafka_error
    from headwater.connect.runtime.worker_process import serve

    async with Admin({"client.id": "headwater-cli", **file.client}) as admin:
        try:
            await admin.describe_cluster(timeout=_FIRST_ANSWER_S)
        except KafkaTimeout as error:
            raise KafkaError(f"no broker answers: {last_kafka_error(error) or error}") from error
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)

    def announce(url: str) -> None:
        print(f"headwater connect ready on {url} (brokers {file.bootstrap_servers})", flush=True)

    await serve(file, address, connectors, ready=announce, ended=ended)


def _complain(reason: str) -> None:
    typer.echo(f"headwater: {reason}", err=True)
    raise typer.Exit(CANNOT_START)
