"""Where a group shall go on: the rules of `groups reset-offsets`, and offsets as CSV.

Lines are `topic,partition,offset`, as `kafka-consumer-groups --export` writes and `--from-file`
reads them. What a reader would get wrong: no rule leads out of the log. An offset that is not there
would only be reset by the group's next poll, to wherever its `auto.offset.reset` says.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from headwater.cli.times import duration_ms, timestamp_ms
from headwater.client import TopicPartition

if TYPE_CHECKING:
    from headwater.client import Admin

Offsets = Mapping[TopicPartition, int]

_END: Final = -1
_BEGINNING: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRule:
    """Where to go; exactly one of them says it."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    to_time: str | None = None
    by_duration: str | None = None
    shift_by: int | None = None
    from_file: Path | None = None

    def check(self) -> None:
        given = (
            self.to_earliest, self.to_latest, self.to_current, self.to_offset, self.to_time,
            self.by_duration, self.shift_by, self.from_file,
        )  # fmt: skip
        if sum(each is not None and each is not False for each in given) != 1:
            raise typer.BadParameter(
                "give one of --to-earliest, --to-latest, --to-current, --to-offset, --to-time, "
                "--by-duration, --shift-by and --from-file"
            )

    def asked_ms(self, now_ms: int) -> int | None:
        """The time whose offsets are wanted, if that is what the rule is about."""
        if self.to_time is not None:
            return timestamp_ms(self.to_time)
        if self.by_duration is not None:
            return max(now_ms - duration_ms(self.by_duration), 0)
        return None


def inside(wanted: Offsets, first: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    """The nearest offsets that are there."""
    return {place: min(max(offset, first[place]), end[place]) for place, offset in wanted.items()}


def new_offsets(
    admin: "Admin", rule: ResetRule, given: Offsets, places: list[TopicPartition], before: Offsets,
    *, now_ms: int,
) -> dict[TopicPartition, int]:  # fmt: skip
    """Where the group would go on. `given` is what a file says, if it is one that does."""
    first = _offsets(admin, places, _BEGINNING)
    end = _offsets(admin, places, _END)
    wanted: Offsets
    if rule.to_earliest:
        wanted = first
    elif rule.to_latest:
        wanted = end
    elif rule.to_current:
        # Kafka does this: where nothing is committed, the end is where it would begin.
        wanted = {place: before.get(place, end[place]) for place in places}
    elif rule.to_offset is not None:
        wanted = dict.fromkeys(places, rule.to_offset)
    elif rule.shift_by is not None:
        _expect_offsets(places, before)
        wanted = {place: before[place] + rule.shift_by for place in places}
    elif (asked_ms := rule.asked_ms(now_ms)) is not None:
        found = _offsets(admin, places, asked_ms)
        wanted = {place: found[place] if found[place] >= 0 else end[place] for place in places}
    else:
        wanted = given
    there = inside(wanted, first, end)
    _tell_moved(wanted, there)
    return there


def read_csv(file: Path, group: str) -> dict[TopicPartition, int]:
    """What a file says of a group. Lines may begin with the group they are about."""
    found = {}
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}") from error
    for number, fields in enumerate(csv.reader(io.StringIO(text)), 1):
        if len(fields) == 4 and fields[0] == group:
            fields = fields[1:]
        elif not fields or len(fields) == 4:
            continue
        try:
            topic, partition, offset = fields
            found[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            text = f"{file}, line {number} is not topic,partition,offset"
            raise typer.BadParameter(text) from None
    if not found:
        raise typer.BadParameter(f"{file} says nothing about group {group}")
    return found


def as_csv(offsets: Offsets) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((place.topic, place.partition, offset) for place, offset in offsets.items())
    return text.getvalue()


def chosen_places(
    admin: "Admin", topics: Iterable[str], *, every: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """`tea` is all partitions of a topic, `tea:0,2` some. `every` is what no choice means."""
    wanted = [_parted(each) for each in topics]
    if not wanted:
        return sorted(every)
    described = admin.describe_topics(sorted({topic for topic, _ in wanted}))
    places: dict[TopicPartition, None] = {}
    for topic, numbers in wanted:
        there = [each.partition for each in described[topic].partitions]
        for number in there if numbers is None else numbers:
            if number not in there:
                typer.echo(f"headwater: {topic} has no partition {number}", err=True)
                raise typer.Exit(1)
            places[TopicPartition(topic, number)] = None
    return sorted(places)


def _parted(text: str) -> tuple[str, list[int] | None]:
    topic, is_parted, numbers = text.partition(":")
    if not is_parted:
        return topic, None
    try:
        return topic, [int(each) for each in numbers.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no topic, nor topic:0,1") from None


def _expect_offsets(places: Iterable[TopicPartition], before: Offsets) -> None:
    missing = [place for place in places if place not in before]
    for place in missing:
        typer.echo(f"headwater: {place}: the group has no offset there to shift", err=True)
    if missing:
        raise typer.Exit(1)


def _tell_moved(wanted: Offsets, there: Offsets) -> None:
    for place, offset in wanted.items():
        if offset < there[place]:
            typer.echo(f"headwater: {place} begins at {there[place]}, not at {offset}", err=True)
        elif offset > there[place]:
            typer.echo(f"headwater: {place} ends at {there[place]}, before {offset}", err=True)


def _offsets(
    admin: "Admin", places: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(places, timestamp))
    return {place: where.offset for place, where in found.items()}
