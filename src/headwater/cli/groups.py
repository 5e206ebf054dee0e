"""`headwater groups`: list and describe groups with their lag, reset offsets, delete.

What a reader would get wrong: `reset-offsets` changes nothing without `--execute`. It shows where
the group would go on, so that a slip costs nothing.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

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
)

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition

app = typer.Typer(no_args_is_help=True, help="Groups of consumers and their offsets.")

Group = Annotated[str, typer.Argument(help="The group's id.", show_default=False)]


@app.command("list")
def list_(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """All groups, with their types and states."""
    with admin_of(bootstrap, command_config) as admin:
        groups = admin.list_groups()
    rows = [{"group": each.group_id, "type": each.type, "state": each.state} for each in groups]
    show(rows, as_json=as_json, columns=["group", "type", "state"])


@app.command()
def describe(
    group: Group,
    members: Annotated[bool, typer.Option("--members", help="Members, not offsets.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """How far a group is in each partition, and who reads it."""
    with admin_of(bootstrap, command_config) as admin:
        described = admin.describe_groups([group])[group]
        if members:
            rows: list[dict[str, object]] = [
                {
                    "member": each.member_id,
                    "instance": each.group_instance_id,
                    "client": each.client_id,
                    "host": each.client_host,
                    "partitions": len(each.assignment),
                    "assignment": list(map(str, each.assignment)),
                }
                for each in described.members
            ]
            columns = ["member", "instance", "client", "host", "partitions"]
        else:
            owner = {
                place: each.client_id for each in described.members for place in each.assignment
            }
            rows = _lags(admin, group, owner)
            columns = ["topic", "partition", "offset", "end", "lag", "client"]
    show(rows, as_json=as_json, columns=columns)


def _lags(
    admin: "Admin", group: str, owner: dict["TopicPartition", str]
) -> list[dict[str, object]]:
    committed = admin.list_group_offsets(group)
    places = sorted({*committed, *owner})
    ends = admin.list_offsets(dict.fromkeys(places, -1))
    rows: list[dict[str, object]] = []
    for place in places:
        offset = committed[place].offset if place in committed else None
        end = ends[place].offset
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": offset,
                "end": end,
                "lag": None if offset is None else max(end - offset, 0),
                "client": owner.get(place),
            }
        )
    return rows


class _Rule(NamedTuple):
    """Where to go; exactly one of them says it."""

    to_earliest: bool
    to_latest: bool
    to_offset: int | None
    to_time: str | None
    shift_by: int | None

    def apply(
        self, admin: "Admin", places: list["TopicPartition"], before: dict["TopicPartition", int]
    ) -> dict["TopicPartition", int]:
        """The new offsets. Never outside of the log: the next poll would only be reset."""
        if sum(each is not None and each is not False for each in self) != 1:
            raise typer.BadParameter(
                "give one of --to-earliest, --to-latest, --to-offset, --to-time and --shift-by"
            )
        first = _offsets(admin, places, -2)
        end = _offsets(admin, places, -1)
        if self.to_earliest:
            wanted = first
        elif self.to_latest:
            wanted = end
        elif self.to_offset is not None:
            wanted = dict.fromkeys(places, self.to_offset)
        elif self.shift_by is not None:
            _expect_offsets(places, before)
            wanted = {place: before[place] + self.shift_by for place in places}
        else:
            assert self.to_time is not None
            found = _offsets(admin, places, timestamp_ms(self.to_time))
            wanted = {place: found[place] if found[place] >= 0 else end[place] for place in places}
        inside = {place: min(max(wanted[place], first[place]), end[place]) for place in places}
        _tell_moved(wanted, inside)
        return inside


def _expect_offsets(places: list["TopicPartition"], before: dict["TopicPartition", int]) -> None:
    missing = [place for place in places if place not in before]
    for place in missing:
        typer.echo(f"headwater: {place}: the group has no offset there to shift", err=True)
    if missing:
        raise typer.Exit(1)


def _tell_moved(wanted: dict["TopicPartition", int], inside: dict["TopicPartition", int]) -> None:
    for place, offset in wanted.items():
        if offset < inside[place]:
            typer.echo(f"headwater: {place} begins at {inside[place]}, not at {offset}", err=True)
        elif offset > inside[place]:
            typer.echo(f"headwater: {place} ends at {inside[place]}, before {offset}", err=True)


def _offsets(
    admin: "Admin", places: list["TopicPartition"], timestamp: int
) -> dict["TopicPartition", int]:
    found = admin.list_offsets(dict.fromkeys(places, timestamp))
    return {place: where.offset for place, where in found.items()}


@app.command("reset-offsets")
def reset_offsets(
    group: Group,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic.")],
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the beginning.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", help="To this one.")] = None,
    to_time: Annotated[
        str | None, typer.Option("--to-time", help="ISO 8601, or milliseconds since 1970.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", help="From where it is; may be negative.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Where a group would go on; with --execute it does. The group must have no members."""
    rule = _Rule(to_earliest, to_latest, to_offset, to_time, shift_by)
    with admin_of(bootstrap, command_config) as admin:
        places = _partitions(admin, topic)
        before = {
            place: found.offset for place, found in admin.list_group_offsets(group, places).items()
        }
        wanted = rule.apply(admin, places, before)
        if execute:
            admin.alter_group_offsets(group, dict(wanted))
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "before": before.get(place),
            "after": wanted[place],
            "done": execute,
        }
        for place in places
    ]
    show(rows, as_json=as_json, columns=["topic", "partition", "before", "after"])
    if not execute:
        typer.echo("Nothing was changed. With --execute it is.", err=True)


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(help="Groups.", show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups without members, and their offsets."""
    with admin_of(bootstrap, command_config) as admin:
        errors = errors_of(lambda: admin.delete_groups(groups))
    deleted = [{"group": group} for group in groups if group not in errors]
    tell_done(deleted, as_json=as_json, errors=errors)


def _partitions(admin: "Admin", topic: str) -> list["TopicPartition"]:
    from headwater.client import TopicPartition

    described = admin.describe_topics([topic])[topic]
    return [TopicPartition(topic, each.partition) for each in described.partitions]


def timestamp_ms(text: str) -> int:
    """A time as people write it. One without a zone is of this machine's zone."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time such as 2026-01-31T12:00") from None
    return int(moment.astimezone().timestamp() * 1000)
