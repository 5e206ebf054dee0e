"""`headwater groups`: groups, their lag, and resetting and deleting offsets.

Note: `reset-offsets` without `--execute` is a dry run, as in kafka-consumer-groups.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headwater.cli.completion import group_names, topic_names
from headwater.cli.groups.group_lags import group_lags
from headwater.cli.groups.lag import lag
from headwater.cli.groups.reset_options import (
    ByDuration,
    FromFile,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
)
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    errors_of,
    hint,
    outcomes_of,
    show,
    show_done,
    show_found,
)

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition
    from headwater.client.admin.descriptions import GroupDescription

_SORTS: Final[Mapping[str, "Callable[[Mapping[str, object]], Any]"]] = {
    "name": lambda row: row["group"],
    "state": lambda row: row["state"],
    "members": lambda row: -_number(row["members"]),
    "lag": lambda row: -_number(row["lag"]),
}


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


app = typer.Typer(no_args_is_help=True, help="Manage consumer groups and their offsets.")

Group = Annotated[
    str, typer.Argument(help="Group id.", show_default=False, autocompletion=group_names)
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:PARTITION,...]",
        help="Topic, or some of its partitions such as tea:0,2; repeatable.",
        autocompletion=topic_names,
    ),
]


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option(help="List only groups in this state, such as Empty. Default: all."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", help="List only groups of this type, such as consumer. Default: all."
        ),
    ] = None,
    match: Annotated[
        list[str] | None, typer.Option("--match", "-m", help="Only ids with this text; repeatable.")
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", help="Sort by name, state, members or lag.")
    ] = "name",
    lag_of_all: Annotated[
        bool, typer.Option("--lag", help="Show members and lag of any number of groups.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List groups with their states, protocols, members and lag.

    Lag is the sum over all partitions; it is unknown (-) if one of them has no leader. Above 200
    groups, members and lag are shown for the first 200 only, unless --lag is given.
    """
    from headwater.cli.groups.group_lags import DESCRIBED_MAX, group_summaries

    if sort not in _SORTS:
        known = ", ".join(_SORTS)
        raise typer.BadParameter(f"{sort!r} is not one of {known}", param_hint="--sort")
    with admin_of(bootstrap, command_config) as admin:
        groups = [
            each
            for each in admin.list_groups(states=state or [], types=kind or [])
            if not match or any(text in each.group_id for text in match)
        ]
        described = groups if lag_of_all else groups[:DESCRIBED_MAX]
        summaries = group_summaries(admin, [each.group_id for each in described])
    rows: list[dict[str, object]] = [
        {
            "group": each.group_id,
            "type": each.type,
            "state": each.state,
            "protocol": each.protocol_type,
            **(summaries.get(each.group_id) or dict.fromkeys(("assignor", "members", "lag"))),
        }
        for each in groups
    ]
    rows.sort(key=_SORTS[sort])
    show(rows, as_json=as_json, columns=["group", "state", "type", "protocol", "members", "lag"])
    if len(described) < len(groups):
        hint(f"lag is shown for the first {DESCRIBED_MAX} groups; --lag or --match shows others")


@app.command()
def describe(
    groups: Annotated[
        list[str] | None,
        typer.Argument(help="Group ids.", show_default=False, autocompletion=group_names),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Describe all groups.")] = False,
    members: Annotated[
        bool, typer.Option("--members", help="Show members instead of offsets.")
    ] = False,
    state: Annotated[bool, typer.Option("--state", help="Show states instead of offsets.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show committed offsets, lag and assigned clients for each partition."""
    if bool(groups) == every or (members and state):
        raise typer.BadParameter("give group ids or --all, and at most one of --members, --state")
    with admin_of(bootstrap, command_config) as admin:
        names = groups or [each.group_id for each in admin.list_groups()]
        found, errors = outcomes_of(lambda: admin.describe_groups(names))
        rows: list[dict[str, object]] = []
        for group in found.values():
            if members:
                rows += _member_rows(group)
            elif state:
                rows.append(_state_row(group))
            else:
                rows += group_lags(admin, group)
    if members:
        columns = ["member", "instance", "client", "host", "partitions"]
    elif state:
        columns = ["type", "state", "assignor", "members"]
    else:
        columns = ["topic", "partition", "offset", "end", "lag", "client"]
    if state or len(names) != 1:
        columns.insert(0, "group")
    show_found(rows, errors, as_json=as_json, columns=columns)


def _member_rows(group: "GroupDescription") -> list[dict[str, object]]:
    return [
        {
            "group": group.group_id,
            "member": each.member_id,
            "instance": each.group_instance_id,
            "client": each.client_id,
            "host": each.client_host,
            "epoch": each.member_epoch,
            "partitions": len(each.assignment),
            "assignment": list(map(str, each.assignment)),
        }
        for each in group.members
    ]


def _state_row(group: "GroupDescription") -> dict[str, object]:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "members": len(group.members),
        "epoch": group.group_epoch,
    }


app.command("lag")(lag)


@app.command("reset-offsets")
def reset_offsets(
    group: Group,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All partitions with committed offsets.")
    ] = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    to_time: ToTime = None,
    by_duration: ByDuration = None,
    shift_by: ShiftBy = None,
    from_file: FromFile = None,
    export: Annotated[
        bool, typer.Option("--export", help="Print CSV for --from-file instead of a table.")
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Commit the new offsets; without it, a dry run.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show new offsets of an empty group; commit them with --execute."""
    from headwater.cli.groups.offset_resets import (
        ResetRule,
        as_csv,
        chosen_partitions,
        new_offsets,
        read_csv,
    )

    rule = ResetRule(
        to_earliest=to_earliest, to_latest=to_latest, to_current=to_current, to_offset=to_offset,
        to_time=to_time, by_duration=by_duration, shift_by=shift_by, from_file=from_file,
    )  # fmt: skip
    rule.check()
    now_ms = time.time_ns() // 1_000_000
    rule.target_time_ms(now_ms)
    if bool(topic) + all_topics + (from_file is not None) != 1:
        raise typer.BadParameter("give --topic, --all-topics or --from-file, and only one of them")
    if export and as_json:
        raise typer.BadParameter("--export prints CSV and cannot be combined with --json")
    given = {} if from_file is None else read_csv(from_file, group)
    with admin_of(bootstrap, command_config) as admin:
        _expect_no_members(admin, group)
        before = {place: found.offset for place, found in admin.list_group_offsets(group).items()}
        places = chosen_partitions(
            admin, _named(given) or topic or [], every=before if all_topics else ()
        )
        wanted = new_offsets(admin, rule, given, places, before, now_ms=now_ms)
        if execute and wanted:
            admin.alter_group_offsets(group, dict(wanted))
    if export:
        typer.echo(as_csv(wanted), nl=False)
    else:
        _show_reset(before, wanted, is_done=execute, as_json=as_json)
    if not execute:
        typer.echo("Dry run: no offsets were changed. Use --execute to commit them.", err=True)


def _named(places: "Iterable[TopicPartition]") -> list[str]:
    return [f"{place.topic}:{place.partition}" for place in places]


def _show_reset(
    before: "Mapping[TopicPartition, int]",
    wanted: "Mapping[TopicPartition, int]",
    *,
    is_done: bool,
    as_json: bool,
) -> None:
    rows: Sequence[dict[str, object]] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "before": before.get(place),
            "after": offset,
            "done": is_done,
        }
        for place, offset in sorted(wanted.items())
    ]
    show(rows, as_json=as_json, columns=["topic", "partition", "before", "after"])


def _expect_no_members(admin: "Admin", group: str) -> None:
    """Exit if the group has members, in a dry run too."""
    from headwater.client.errors import GroupIdNotFound

    try:
        members = admin.describe_groups([group])[group].members
    except GroupIdNotFound:
        # Offsets can be committed for a group that does not exist yet.
        return
    if members:
        some = "a member" if len(members) == 1 else f"{len(members)} members"
        typer.echo(
            f"headwater: group {group} has {some}; stop them before resetting offsets", err=True
        )
        raise typer.Exit(1)


@app.command("delete-offsets")
def delete_offsets(
    group: Group,
    topic: Topics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete committed offsets of topics that the group is not subscribed to."""
    from headwater.cli.groups.offset_resets import chosen_partitions

    if not topic:
        raise typer.BadParameter("give --topic")
    with admin_of(bootstrap, command_config) as admin:
        places = chosen_partitions(admin, topic, every=())
        errors = errors_of(lambda: admin.delete_group_offsets(group, places))
    rows = [
        {"topic": place.topic, "partition": place.partition}
        for place in places
        if place not in errors
    ]
    show_done(rows, as_json=as_json, errors=errors)


@app.command()
def delete(
    groups: Annotated[
        list[str], typer.Argument(help="Group ids.", show_default=False, autocompletion=group_names)
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete empty groups and their committed offsets."""
    with admin_of(bootstrap, command_config) as admin:
        errors = errors_of(lambda: admin.delete_groups(groups))
    deleted = [{"group": group} for group in groups if group not in errors]
    show_done(deleted, as_json=as_json, errors=errors)
