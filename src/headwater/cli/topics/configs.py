"""`headwater configs`: describe and alter configs of topics, brokers and groups.

Broker loggers are resources too.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.completion import group_names, topic_names
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    hint,
    pairs,
    printable,
    show,
    show_done,
)

if TYPE_CHECKING:
    from headwater.client import Admin, ConfigResource

app = typer.Typer(no_args_is_help=True, help="Describe and alter configs.")

Topic = Annotated[
    str | None,
    typer.Option("--topic", "-t", help="Configs of this topic.", autocompletion=topic_names),
]
Broker = Annotated[int | None, typer.Option("--broker", help="Configs of the broker with this id.")]
Brokers = Annotated[
    bool, typer.Option("--all-brokers", help="Cluster-wide default configs of brokers.")
]
Loggers = Annotated[
    int | None,
    typer.Option("--loggers", help="Log levels of the broker with this id; lost when it restarts."),
]
Group = Annotated[
    str | None,
    typer.Option("--group", "-g", help="Configs of this group.", autocompletion=group_names),
]


@app.command()
def describe(
    topic: Topic = None,
    broker: Broker = None,
    all_brokers: Brokers = False,
    loggers: Loggers = None,
    group: Group = None,
    every: Annotated[bool, typer.Option("--all", help="Include defaults.")] = False,
    docs: Annotated[
        bool, typer.Option("--docs", help="Show what each config means, one below the other.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show configs and the sources of their values."""
    resource = _resource(topic, broker, all_brokers, loggers, group)
    with admin_of(bootstrap, command_config) as admin, _named(resource):
        configs = admin.describe_configs([resource])[resource]
    shown = [
        entry
        for entry in sorted(configs.values(), key=lambda entry: entry.name)
        if every or not entry.is_default
    ]
    rows = [
        {
            "config": entry.name,
            "value": entry.value,
            "source": getattr(entry.source, "name", entry.source),
            "read_only": entry.is_read_only,
            "documentation": entry.documentation,
        }
        for entry in shown
    ]
    if docs and not as_json:
        for entry in shown:
            typer.echo(typer.style(f"{entry.name} = {printable(str(entry.value))}", bold=True))
            source = getattr(entry.source, "name", entry.source)
            text = f"{entry.documentation or 'No description.'} ({source})"
            typer.echo(fill(text, 78, initial_indent="  ", subsequent_indent="  ") + "\n")
    else:
        show(rows, as_json=as_json, columns=["config", "value", "source"])
    hidden = len(configs) - len(shown)
    if hidden:
        hint(f"{hidden} configs have their defaults; --all shows them, --docs explains")


@app.command()
def alter(
    settings: Annotated[
        list[str] | None, typer.Argument(help="Configs to set, name=value.", show_default=False)
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", help="Config to reset to its default; repeatable."),
    ] = None,
    topic: Topic = None,
    broker: Broker = None,
    all_brokers: Brokers = False,
    loggers: Loggers = None,
    group: Group = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate only, change nothing.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Set or delete configs; others stay as they are."""
    resource = _resource(topic, broker, all_brokers, loggers, group)
    changes: dict[str, str | None] = {**pairs(settings or [], "SETTINGS")}
    changes |= dict.fromkeys(delete or [])
    if not changes:
        raise typer.BadParameter("nothing to alter; give name=value or --delete")
    with admin_of(bootstrap, command_config) as admin, _named(resource):
        if not all_brokers:
            check_configs(admin, resource, delete or [])
        admin.alter_configs({resource: dict(changes)}, validate_only=dry_run)
    rows = [
        {"config": name, "value": value, "done": not dry_run} for name, value in changes.items()
    ]
    show_done(rows, as_json=as_json)


def check_configs(admin: "Admin", resource: "ConfigResource", names: Sequence[str]) -> None:
    """Fail if a config does not exist; brokers accept deleting unknown configs."""
    if not names:
        return
    known = admin.describe_configs([resource])[resource]
    unknown = [name for name in names if name not in known]
    for name in unknown:
        typer.echo(f"headwater: {_words(resource)}: unknown config {name}", err=True)
    if unknown:
        raise typer.Exit(1)


@contextmanager
def _named(resource: "ConfigResource") -> Iterator[None]:
    """Name the resource in errors; its own name may be a number or empty."""
    from headwater.client.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        name, text = f"{resource.name}: ", str(error)
        if not text.startswith(name):
            raise
        raise type(error)(f"{_words(resource)}: {text.removeprefix(name)}") from error


def _words(resource: "ConfigResource") -> str:
    if resource.type.name == "TOPIC":
        return resource.name
    kind = resource.type.name.lower().replace("_", " ")
    return f"{kind} {resource.name}" if resource.name else "all brokers"


def _resource(
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    loggers: int | None,
    group: str | None,
) -> "ConfigResource":
    from headwater.client import ConfigResource

    chosen = [
        *([ConfigResource.topic(topic)] if topic is not None else []),
        *([ConfigResource.broker(broker)] if broker is not None else []),
        *([ConfigResource.broker()] if all_brokers else []),
        *([ConfigResource.loggers(loggers)] if loggers is not None else []),
        *([ConfigResource.group(group)] if group is not None else []),
    ]
    if len(chosen) != 1:
        raise typer.BadParameter(
            "give one of --topic, --broker, --all-brokers, --loggers and --group"
        )
    return chosen[0]
