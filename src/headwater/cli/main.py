"""Assemble the `headwater` command from its subcommands.

Command modules import what they need inside their functions, so that `headwater --help` and shell
completion stay fast.
"""

from typing import Annotated

import typer

import headwater
from headwater.cli.broker import cluster, cluster_start, storage, zookeeper
from headwater.cli.data import consume, perf, produce, records
from headwater.cli.doctor import doctor
from headwater.cli.entry import start_broker
from headwater.cli.groups import groups, transactions
from headwater.cli.log import log_dump
from headwater.cli.security import acls, quotas, users
from headwater.cli.spark import connect, mirror, pipeline
from headwater.cli.topics import configs, partitions, topics
from headwater.cli.web import console, registry, rest

app = typer.Typer(
    no_args_is_help=True,
    help="Kafka, implemented in Python.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


# Listed here for --help; `headwater.cli.broker.start` parses its arguments.
@app.command(
    "start",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def start(context: typer.Context) -> None:
    """Start a broker and serve until SIGTERM or Ctrl-C."""
    raise typer.Exit(start_broker(context.args))


log = typer.Typer(no_args_is_help=True, help="Inspect log files.")
log.command("dump")(log_dump.dump)
app.add_typer(log, name="log")

app.add_typer(topics.app, name="topics")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.add_typer(groups.app, name="groups")
app.add_typer(configs.app, name="configs")
app.add_typer(quotas.app, name="quotas")
app.add_typer(acls.app, name="acls")
app.add_typer(records.app, name="records")
app.add_typer(partitions.app, name="partitions")
app.add_typer(transactions.app, name="transactions")
app.add_typer(users.app, name="users")
cluster.app.command("start")(cluster_start.start)
app.add_typer(cluster.app, name="cluster")
app.add_typer(storage.app, name="storage")
app.command("doctor")(doctor.doctor)
app.command("zookeeper")(zookeeper.zookeeper)
app.command("mirror")(mirror.mirror)
app.add_typer(connect.app, name="connect")
app.add_typer(perf.app, name="perf")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(registry.app, name="registry")
app.add_typer(console.app, name="console")
app.add_typer(rest.app, name="rest")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {headwater.__version__}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Kafka, implemented in Python."""
