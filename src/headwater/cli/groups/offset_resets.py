"""The rules of `groups reset-offsets`, and reading and writing offsets as CSV.

CSV lines are `topic,partition,offset`, as `kafka-consumer-groups` writes with `--export` and reads
with `--from-file`.

Note: new offsets are limited to the range of the log. An offset outside it would be reset by the
group's next poll according to its `auto.offset.reset`.
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
    """The target of a reset; exactly one field is set."""

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

    def target_time_ms(self, now_ms: int) -> int | None:
        """The timestamp to look up with ListOffsets, if the rule names a time."""
        if self.to_time is not None:
            return timestamp_ms(self.to_time)
        if self.by_duration is not None:
            return max(now_ms - duration_ms(self.by_duration), 0)
        return None


def inside(wanted: Offsets, first: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    """Limit offsets to the range of the log."""
    return {place: min(max(offset, first[place]), end[place]) for place, offset in wanted.items()}


def new_offsets(
    admin: "Admin", rule: ResetRule, given: Offsets, places: list[TopicPartition], before: Offsets,
    *, now_ms: int,
) -> dict[TopicPartition, int]:  # fmt: skip
    """Compute the new offsets. `given` holds the offsets of --from-file."""
    first = _offsets(admin, places, _BEGINNING)
    end = _offsets(admin, places, _END)
    wanted: Offsets
    if rule.to_earliest:
        wanted = first
    elif rule.to_latest:
        wanted = end
    elif rule.to_current:
        # As in Kafka: a partition without a committed offset goes to the end.
        wanted = {place: before.get(place, end[place]) for place in places}
    elif rule.to_offset is not None:
        wanted = dict.fromkeys(places, rule.to_offset)
    elif rule.shift_by is not None:
        _expect_offsets(places, before)
        wanted = {place: before[place] + rule.shift_by for place in places}
    elif (target_time_ms := rule.target_time_ms(now_ms)) is not None:
        found = _offsets(admin, places, target_time_ms)
        wanted = {place: found[place] if found[place] >= 0 else end[place] for place in places}
    else:
        wanted = given
    limited = inside(wanted, first, end)
    _warn_limited(wanted, limited)
    return limited


def read_csv(file: Path, group: str) -> dict[TopicPartition, int]:
    """Read the offsets of a group; lines may start with a group id."""
    found = {}
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {file}: {error}") from error
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
        raise typer.BadParameter(f"{file} has no offsets of group {group}")
    return found


def as_csv(offsets: Offsets) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((place.topic, place.partition, offset) for place, offset in offsets.items())
    return text.getvalue()


def chosen_partitions(
    admin: "Admin", topics: Iterable[str], *, every: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Resolve `tea` (all partitions) and `tea:0,2`; without topics return `every`."""
    wanted = [_split_topic(each) for each in topics]
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


def _split_topic(text: str) -> tuple[str, list[int] | None]:
    topic, has_partitions, numbers = text.partition(":")
    if not has_partitions:
        return topic, None
    try:
        return topic, [int(each) for each in numbers.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither topic nor topic:0,1") from None


def _expect_offsets(places: Iterable[TopicPartition], before: Offsets) -> None:
    missing = [place for place in places if place not in before]
    for place in missing:
        typer.echo(f"headwater: {place}: no committed offset to shift", err=True)
    if missing:
        raise typer.Exit(1)


def _warn_limited(wanted: Offsets, limited: Offsets) -> None:
    for place, offset in wanted.items():
        if offset < limited[place]:
            typer.echo(
                f"headwater: {place}: offset {offset} is before the log start offset; "
                f"using {limited[place]}",
                err=True,
            )
        elif offset > limited[place]:
            typer.echo(
                f"headwater: {place}: offset {offset} is beyond the end; using {limited[place]}",
                err=True,
            )


def _offsets(
    admin: "Admin", places: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(places, timestamp))
    return {place: where.offset for place, where in found.items()}
