"""`headwater partitions`: reassign, move between log directories, elect leaders."""

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
    exit_with_errors,
    outcomes_of,
    show,
    show_done,
    show_found,
    topic_partition,
    waiting,
)

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition

app = typer.Typer(no_args_is_help=True, help="Reassign partitions and elect leaders.")

_POLL_INTERVAL_S: Final = 0.5

Places = Annotated[
    list[str] | None,
    typer.Argument(help="Partitions, such as tea:0.", show_default=False),
]
PlanFile = Annotated[Path, typer.Argument(help="Reassignment plan (JSON).", show_default=False)]


@app.command()
def plan(
    topics: Annotated[
        list[str],
        typer.Argument(help="Topic names.", show_default=False, autocompletion=topic_names),
    ],
    brokers: Annotated[
        str | None,
        typer.Option(help="Ids of the brokers to use, such as 1,2,3; default: all brokers."),
    ] = None,
    current: Annotated[
        bool,
        typer.Option("--current", help="Print the current assignment, for a rollback."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Propose an assignment that spreads topics over brokers, for `reassign --file`."""
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
        typer.echo(f"headwater: no broker with id {missing[0]}", err=True)
        raise typer.Exit(1)
    used = nodes if chosen is None else [there[each] for each in chosen]
    typer.echo(plan_text(proposed_plan(described, used, SystemRandom())))


@app.command()
def reassign(
    partitions: Places = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="ID,...", help="Ids of the brokers with the new replicas, such as 1,2,3."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Plan, as `headwater partitions plan` prints it."),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel a reassignment.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the reassignment has completed.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Reassign partitions to the brokers of --to, or according to a plan."""
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
    show_done(rows, as_json=as_json, errors=errors)


def _wanted(
    partitions: Sequence[str], to: str | None, file: Path | None, *, cancel: bool
) -> "dict[TopicPartition, Sequence[int] | None]":
    from headwater.cli.topics.reassignment_plans import read_plan

    if bool(partitions) == (file is not None):
        raise typer.BadParameter("give partitions or --file, and not both")
    if file is not None:
        if to is not None:
            raise typer.BadParameter("--file cannot be combined with --to")
        return {place: None if cancel else brokers for place, brokers in read_plan(file).items()}
    if (to is None) != cancel:
        raise typer.BadParameter("give --to or --cancel, and not both")
    brokers = None if to is None else _broker_ids(to)
    return dict.fromkeys(map(topic_partition, partitions), brokers)


def _broker_ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of broker ids such as 1,2,3") from None


def _await_end(admin: "Admin", places: "Iterable[TopicPartition]") -> None:
    wanted = list(places)
    while admin.list_partition_reassignments(wanted):
        time.sleep(_POLL_INTERVAL_S)


@app.command()
def verify(
    file: PlanFile,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a plan. Exits with 1 until all partitions are reassigned."""
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
    """List the reassignments in progress."""
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
        list[str] | None,
        typer.Argument(help="Partitions, such as tea:0; default: all.", show_default=False),
    ] = None,
    broker: Annotated[
        int | None, typer.Option(help="Only the broker with this id. Default: all brokers.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the log directories of partitions and the progress of moves between them."""
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
        list[str],
        typer.Argument(help="Partitions, such as tea:0.", show_default=False),
    ],
    to: Annotated[
        str, typer.Option(metavar="DIR", help="Target directory, as in log.dirs of the broker.")
    ],
    broker: Annotated[int, typer.Option(help="Id of the broker.")] = 0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Move partitions to another log directory of a broker while they stay available.

    To cancel a move, move the partition to its current directory. `log-dirs` shows the progress.
    """
    places = [topic_partition(each) for each in partitions]
    with admin_of(bootstrap, command_config) as admin:
        errors = errors_of(lambda: admin.alter_replica_log_dirs(broker, dict.fromkeys(places, to)))
    rows = [
        {"topic": place.topic, "partition": place.partition, "broker": broker, "log_dir": to}
        for place in places
        if place not in errors
    ]
    show_done(rows, as_json=as_json, errors=errors)


@app.command("elect-leader")
def elect_leader(
    partitions: Places = None,
    every: Annotated[bool, typer.Option("--all", help="Elect for all partitions.")] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Elect a live replica outside the ISR if needed; may lose records."
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Elect the preferred leaders, or with --unclean any live replica."""
    from headwater.common.error_codes import ErrorCode

    if bool(partitions) == every:
        raise typer.BadParameter("give partitions or --all, and not both")
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
    # ELECTION_NOT_NEEDED: the preferred replica leads already.
    failed = [
        error
        for error in found.values()
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
    ]
    if failed:
        exit_with_errors(failed)
