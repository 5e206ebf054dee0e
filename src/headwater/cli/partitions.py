"""`headwater partitions`: move partitions between brokers and disks, and have leaders elected."""

from typing import Annotated

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    errors_of,
    show,
    tell_done,
    tell_errors,
    topic_partition,
)

app = typer.Typer(no_args_is_help=True, help="Move partitions, and elect their leaders.")

Places = Annotated[list[str], typer.Argument(help="topic:partition ...", show_default=False)]


@app.command()
def reassign(
    partitions: Places,
    to: Annotated[
        str | None, typer.Option(help="The ids of the new brokers, parted by commas.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Call a move off.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Move partitions to other brokers."""
    if (to is None) != cancel:
        raise typer.BadParameter("give --to or --cancel")
    try:
        brokers = None if to is None else [int(each) for each in to.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{to!r} is no list of broker ids") from None
    places = [topic_partition(each) for each in partitions]
    with admin_of(bootstrap, command_config) as admin:
        errors = errors_of(
            lambda: admin.alter_partition_reassignments(dict.fromkeys(places, brokers))
        )
    rows = [
        {"topic": place.topic, "partition": place.partition, "replicas": brokers}
        for place in places
        if place not in errors
    ]
    tell_done(rows, as_json=as_json, errors=errors)


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
    partitions: Places,
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
    partitions: Places,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Any that lives, even if it lost records.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Have the preferred replicas lead."""
    from headwater.model.errors import ErrorCode

    places = [topic_partition(each) for each in partitions]
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
