"""`headwater start` as `--help` shows it.

`headwater.cli.broker.start` parses the arguments.
"""

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.entry import start_broker


def start(
    context: typer.Context,
    _config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Kafka server.properties file.")
    ] = None,
    _data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Comma-separated log directories (log.dirs). Default: ./data.",
        ),
    ] = None,
    _listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="The only address to listen on (listeners). Default: 127.0.0.1:9092.",
        ),
    ] = None,
    _node_id: Annotated[
        str | None,
        typer.Option(
            "--node-id", metavar="N", help="Node id of this broker (node.id). Default: 0."
        ),
    ] = None,
    _cores: Annotated[
        int | None,
        typer.Option(
            "--cores",
            metavar="N",
            help="Start N brokers as one KRaft cluster, on the address of --listen and the next "
            "ports.",
        ),
    ] = None,
    _zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            metavar="HOST:PORT",
            help="Join the cluster in this ZooKeeper (zookeeper.connect): HOST:PORT,.../chroot.",
        ),
    ] = None,
    _option: Annotated[
        list[str] | None,
        typer.Option("-o", metavar="KEY=VALUE", help="Set one setting; repeatable."),
    ] = None,
    _strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail to start on unknown settings instead of logging a warning."
        ),
    ] = False,
    _metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="HOST:PORT",
            help="Serve Prometheus metrics on this address (headwater.metrics.listener).",
        ),
    ] = None,
    _log_format: Annotated[
        str,
        typer.Option(
            "--log-format", metavar="FORMAT", help="Format of the log on stderr: text, json."
        ),
    ] = "text",
    _log_level: Annotated[
        str,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            help="Lowest level to log: debug, info, warning, error.",
        ),
    ] = "info",
) -> None:
    """Start a broker and serve until SIGTERM or Ctrl-C.

    Settings have Kafka's names. Flags override -o, and -o overrides the file. Without a file the
    broker listens on 127.0.0.1:9092 and stores its data in ./data.
    """
    raise typer.Exit(start_broker(context.args))
