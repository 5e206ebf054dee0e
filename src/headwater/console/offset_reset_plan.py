"""Compute an offset reset without applying it. Pure.

Note: what is applied later is the plan that the user saw, offset by offset, not the request it was
computed from: "latest" is a different offset a second later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.common.ids import TopicPartition
from headwater.console.console_errors import bad_request
from headwater.console.form_fields import whole, whole_int32

WAYS: Final = ("earliest", "latest", "offset", "time", "shift")
PLAN_ROWS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRow:
    """A partition with the group's current and new offset."""

    topic: str
    partition: int
    before: int | None
    after: int
    start: int
    end: int
    note: str | None = None

    @property
    def change(self) -> int | None:
        return None if self.before is None else self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """The offsets that a reset would commit."""

    group: str
    topic: str
    way: str
    value: str
    rows: tuple[ResetRow, ...]
    is_empty: bool
    """Whether the group has no members; otherwise brokers reject the reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Offsets of a partition. `at_time` is -1 if no record is as recent."""

    place: TopicPartition
    start: int
    end: int
    before: int | None
    at_time: int = -1


def planned_rows(logs: Sequence[Log], way: str, number: int) -> tuple[ResetRow, ...]:
    """New offsets within the log; consumers would reset an offset outside of it."""
    rows = []
    for log in logs:
        requested = _requested(log, way, number)
        if requested is None:
            continue
        after = min(max(requested, log.start), log.end)
        note = None
        if requested < after:
            note = f"log start is {after}"
        elif requested > after:
            note = f"log end is {after}"
        rows.append(
            ResetRow(
                topic=log.place.topic,
                partition=log.place.partition,
                before=log.before,
                after=after,
                start=log.start,
                end=log.end,
                note=note,
            )
        )
    return tuple(rows)


def _requested(log: Log, way: str, number: int) -> int | None:
    match way:
        case "earliest":
            return log.start
        case "latest":
            return log.end
        case "offset":
            return number
        case "time":
            return log.at_time if log.at_time >= 0 else log.end
        case _:
            # Without a committed offset there is nothing to shift.
            return None if log.before is None else log.before + number


def write_plan(rows: Sequence[ResetRow]) -> str:
    """Serialize the plan for a form field, one partition per line."""
    return "\n".join(f"{row.topic} {row.partition} {row.after}" for row in rows)


def read_plan(text: str) -> dict[TopicPartition, int]:
    found = {}
    lines = text.split("\n")
    if len(lines) > PLAN_ROWS_MAX:
        raise bad_request(f"A reset can have at most {PLAN_ROWS_MAX} partitions.")
    for line in lines:
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or any(each.startswith("-") for each in words[1:]):
            raise bad_request("Invalid plan: each line must be 'topic partition offset'.")
        place = TopicPartition(words[0], whole_int32(words[1], "partition"))
        found[place] = whole(words[2], "offset")
    if not found:
        raise bad_request("The plan is empty.")
    return found


def merged_logs(
    places: Sequence[TopicPartition],
    *,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    before: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> list[Log]:
    return [
        Log(
            place=place,
            start=starts[place],
            end=ends[place],
            before=before.get(place),
            at_time=at_time.get(place, -1),
        )
        for place in places
    ]
