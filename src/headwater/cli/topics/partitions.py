"""`headwater partitions`: move partitions between brokers and disks, and have leaders elected."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.completion import topic_names
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    errors_of,
    outcomes_of,
    show,
    show_found,
    tell_done,
    tell_errors,
    topic_partition,
    waiting,
)

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition

app = typer.Typer(no_args_is_help=True, help="Move partitions, and elect their leaders.")

_LOOK_AGAIN_S: Final = 0.5

Places = Annotated[list[str] | None, typer.Argument(help="topic:partition ...", show_default=False)]
PlanFile = Annotated[Path, typer.Argument(help="A plan.", show_default=False)]


@app.command()
def plan(
    topics: Annotated[
        list[str], typer.Argument(help="Topics.", show_default=False, autocompletion=topic_names)
    ],
    brokers: Annotated[
        str | None, typer.Option(help="The ids of the brokers to use, parted by commas; else all.")
    ] = None,
    current: Annotated[
        bool, typer.Option("--current", help="Where they are now, to come back to.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print a plan that spreads topics over brokers, as JSON for `reassign --file`."""
    from headwater.cli.topics.reassignment_plans import current_plan, plan_text, proposed_plan
    from headwater.network.system_clock import SystemRandom

    # A plan is JSON either way.
    del as_json
    chosen = None if brokers is None else _broker_ids(brokers)
    with admin_of(bootstrap, command_config) as admin:
        described = list(admin.describe_topics(topics).values())
        nodes = admin.describe_cluster().brokers
    if current:
        typer.echo(plan_text(current_plan(described)))
        return
    there = {each.node_id: each for each in nodes}
    missing = [each for each in chosen or [] if each not in there]
    if missing:
        typer.echo(f"headwater: there is no broker {missing[0]}", err=True)
        raise typer.Exit(1)
    used = nodes if chosen is None else [there[each] for each in chosen]
    typer.echo(plan_text(proposed_plan(described, used, SystemRandom())))


@app.command()
def reassign(
    partitions: Places = None,
    to: Annotated[
        str | None, typer.Option(help="The ids of the new brokers, parted by commas.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A plan, of `headwater partitions plan`.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Call a move off.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until all are where they shall be.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Move partitions to other brokers: some to --to, or as a plan says."""
    wanted = _wanted(partitions or [], to, file, cancel=cancel)
    with admin_of(bootstrap, command_config) as admin:
        errors = errors_of(lambda: admin.alter_partition_reassignments(wanted))
        begun = {place: brokers for place, brokers in wanted.items() if place not in errors}
        if wait and begun:
            with waiting(f"moving {len(begun)} partitions"):
                _await_end(admin, begun)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": None if brokers is None else list(brokers),
        }
        for place, brokers in begun.items()
    ]
    tell_done(rows, as_json=as_json, errors=errors)


def _wanted(
    partitions: Sequence[str], to: str | None, file: Path | None, *, cancel: bool
) -> "dict[TopicPartition, Sequence[int] | None]":
    from headwater.cli.topics.reassignment_plans import read_plan

    if bool(partitions) == (file is not None):
        raise typer.BadParameter("give partitions or --file")
    if file is not None:
        if to is not None:
            raise typer.BadParameter("--file says where to, and goes without --to")
        return {place: None if cancel else brokers for place, brokers in read_plan(file).items()}
    if (to is None) != cancel:
        raise typer.BadParameter("give --to or --cancel")
    brokers = None if to is None else _broker_ids(to)
    return dict.fromkeys(map(topic_partition, partitions), brokers)


def _broker_ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no list of broker ids") from None


def _await_end(admin: "Admin", places: "Iterable[TopicPartition]") -> None:
    wanted = list(places)
    while admin.list_partition_reassignments(wanted):
        time.sleep(_LOOK_AGAIN_S)


@app.command()
def verify(
    file: PlanFile,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """How far the moves of a plan are. Exits with 1 while something is not where it shall be."""
    from headwater.cli.topics.reassignment_plans import DONE, current_plan, progress_rows, read_plan

    wanted = read_plan(file)
    topics = sorted({place.topic for place in wanted})
    with admin_of(bootstrap, command_config) as admin:
        moves = admin.list_partition_reassignments(wanted)
        described, errors = outcomes_of(lambda: admin.describe_topics(topics))
    rows = progress_rows(wanted, current_plan(list(described.values())), moves)
    columns = ["topic", "partition", "wanted", "replicas", "state"]
    show_found(rows, errors, as_json=as_json, columns=columns)
    if any(row["state"] != DONE for row in rows):
        raise typer.Exit(1)


@app.command()
def moving(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Which partitions are on the move."""
    with admin_of(bootstrap, command_config) as admin:
        found = admin.list_partition_reassignments()
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(each.replicas),
            "adding": list(each.adding_replicas),
            "removing": list(each.removing_replicas),
        }
        for place, each in sorted(found.items())
    ]
    show(rows, as_json=as_json, columns=["topic", "partition", "replicas", "adding", "removing"])


@app.command("log-dirs")
def log_dirs(
    partitions: Annotated[
        list[str] | None, typer.Argument(help="topic:partition ..., or all.", show_default=False)
    ] = None,
    broker: Annotated[int | None, typer.Option(help="This broker only.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """In which log directories partitions lie, and how far those are that move to another."""
    places = {topic_partition(each): None for each in partitions or ()}
    with admin_of(bootstrap, command_config) as admin:
        found = admin.describe_log_dirs(None if broker is None else [broker])
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "broker": node_id,
            "log_dir": directory.path,
            "bytes": info.size_bytes,
            "lag": info.offset_lag,
            "state": "moves here" if info.is_future else "here",
        }
        for node_id, directories in sorted(found.items())
        for directory in directories
        for place, info in directory.replicas.items()
        if not places or place in places
    ]
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["broker"], row["state"]))
    columns = ["topic", "partition", "broker", "log_dir", "bytes", "lag", "state"]
    show(rows, as_json=as_json, columns=columns)


@app.command("move-log-dir")
def move_log_dir(
    partitions: Annotated[
        list[str], typer.Argument(help="topic:partition ...", show_default=False)
    ],
    to: Annotated[str, typer.Option(help="The directory, as the broker's log.dirs names it.")],
    broker: Annotated[int, typer.Option(help="The id of the broker.")] = 0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Move partitions to another log directory of a broker, which serves them meanwhile.

    One that is sent to where it is stays there: so a move is called off. `log-dirs` shows how far
    moves are.
    """
    places = [topic_partition(each) for each in partitions]
    with admin_of(bootstrap, command_config) as admin:
        errors = errors_of(lambda: admin.alter_replica_log_dirs(broker, dict.fromkeys(places, to)))
    rows = [
        {"topic": place.topic, "partition": place.partition, "broker": broker, "log_dir": to}
        for place in places
        if place not in errors
    ]
    tell_done(rows, as_json=as_json, errors=errors)


@app.command("elect-leader")
def elect_leader(
    partitions: Places = None,
    every: Annotated[bool, typer.Option("--all", help="For all partitions.")] = False,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Any that lives, even if it lost records.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Have the preferred replicas lead."""
    from headwater.common.error_codes import ErrorCode

    if bool(partitions) == every:
        raise typer.BadParameter("give partitions or --all")
    places = [topic_partition(each) for each in partitions or []] or None
    with admin_of(bootstrap, command_config) as admin:
        found = admin.elect_leaders(places, is_unclean=unclean)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "outcome": "elected" if error is None else error.code.name,
        }
        for place, error in sorted(found.items())
    ]
    show(rows, as_json=as_json, columns=["topic", "partition", "outcome"])
    # Whoever wanted it to lead has what he wanted if it does already.
    failed = [
        error
        for error in found.values()
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
    ]
    if failed:
        tell_errors(failed)
