"""Assemble the `headwater` command from its subcommands.

`COMMANDS` says where each command is defined. A command's module is imported when the command
runs, and imports what it needs inside its functions.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

import headwater
from headwater.cli.commands import LazyCommand, LazyGroup

_BROKERS: Final = "Brokers and clusters"
_DATA: Final = "Topics and records"
_GROUPS: Final = "Groups and transactions"
_SECURITY: Final = "Security"
_PIPELINES: Final = "Pipelines on Spark"
_WEB: Final = "HTTP servers"
_FIRST: Final = "First steps"

COMMANDS: Final = {
    name: LazyCommand(f"headwater.cli.{target}", summary, panel)
    for name, target, summary, panel in (
        (
            "quickstart",
            "quickstart.quickstart:quickstart",
            "Take a tour: broker, topic, records, console and pipeline.",
            _FIRST,
        ),
        (
            "start",
            "broker.start_command:start",
            "Start a broker and serve until SIGTERM or Ctrl-C.",
            _BROKERS,
        ),
        ("cluster", "broker.cluster:app", "Start or describe a cluster.", _BROKERS),
        (
            "storage",
            "broker.storage:app",
            "Format and inspect the log directories of KRaft nodes.",
            _BROKERS,
        ),
        (
            "zookeeper",
            "broker.zookeeper:zookeeper",
            "Run ZooKeeper (jars from pyspark) until SIGTERM or Ctrl-C. Needs Java 17.",
            _BROKERS,
        ),
        (
            "doctor",
            "doctor.doctor:doctor",
            "Check this machine and a cluster for known problems.",
            _BROKERS,
        ),
        ("perf", "data.perf:app", "Measure throughput and latency.", _BROKERS),
        ("log", "log.log_dump:app", "Inspect log files.", _BROKERS),
        (
            "topics",
            "topics.topics:app",
            "Create, list, describe, alter and delete topics.",
            _DATA,
        ),
        (
            "produce",
            "data.produce:produce",
            "Send each line as a record. Exits with 1 if a record could not be sent.",
            _DATA,
        ),
        (
            "consume",
            "data.consume:consume",
            "Print records of a topic. By default starts at the end of the topic.",
            _DATA,
        ),
        (
            "sql",
            "data.sql:sql",
            "Query topics with SQL. Topics are tables of DuckDB.",
            _DATA,
        ),
        ("records", "data.records:app", "Delete records.", _DATA),
        ("configs", "topics.configs:app", "Describe and alter configs.", _DATA),
        ("partitions", "topics.partitions:app", "Reassign partitions and elect leaders.", _DATA),
        ("groups", "groups.groups:app", "Manage consumer groups and their offsets.", _GROUPS),
        (
            "transactions",
            "groups.transactions:app",
            "List, describe and abort transactions.",
            _GROUPS,
        ),
        ("acls", "security.acls:app", "List, add and remove ACLs.", _SECURITY),
        ("users", "security.users:app", "Manage users with SCRAM credentials.", _SECURITY),
        ("quotas", "security.quotas:app", "List, set and remove client quotas.", _SECURITY),
        ("pipeline", "spark.pipeline:app", "Run and check pipelines on Spark.", _PIPELINES),
        (
            "connect",
            "spark.connect:app",
            "Import rows into topics and export them.",
            _PIPELINES,
        ),
        (
            "mirror",
            "spark.mirror:mirror",
            "Copy topics to another cluster, in whole batches, until Ctrl-C.",
            _PIPELINES,
        ),
        ("registry", "web.registry:app", "Run a schema registry and manage schemas.", _WEB),
        ("console", "web.console:app", "Web console for a cluster.", _WEB),
        (
            "mcp",
            "web.mcp:mcp",
            "Serve a cluster as tools for language models (Model Context Protocol).",
            _WEB,
        ),
        (
            "gateway",
            "web.gateway:app",
            "Schema registry, REST API and console in one process.",
            _WEB,
        ),
        ("rest", "web.rest:app", "REST API over Kafka, as Confluent's REST Proxy.", _WEB),
    )
}


class HeadwaterCommands(LazyGroup):
    """The commands of `headwater`."""

    lazy = COMMANDS


app = typer.Typer(
    cls=HeadwaterCommands,
    invoke_without_command=True,
    help="Kafka, implemented in Python.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {headwater.__version__}")
        raise typer.Exit


_ORIENTATION: Final = """\
Headwater {version}: Kafka, implemented in Python. Brokers that Kafka's clients and tools use,
pipelines on Spark, a schema registry, a REST API and a web console.

Begin with:
  headwater quickstart      a tour: broker, topic, records, console, pipeline
  headwater start           a broker on 127.0.0.1:9092, data in ./data
  headwater console start   look at the cluster in a browser

  headwater --help          all commands; headwater COMMAND --help explains one
  {docs}"""


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Kafka, implemented in Python."""
    if context.invoked_subcommand is None:
        typer.echo(_ORIENTATION.format(version=headwater.__version__, docs=_documentation()))


def _documentation() -> str:
    """Say where the documentation is: wheels do not contain it."""
    page = Path(headwater.__file__).parents[2] / "docs" / "index.md"
    place = str(page) if page.is_file() else "docs/index.md in Headwater's repository"
    return f"documentation             {place}"
