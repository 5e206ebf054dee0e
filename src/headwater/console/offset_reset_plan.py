"""Where a group would go on after a reset: pure. Nothing is changed before somebody has seen it.

What a reader would get wrong: what is carried out is the plan that was shown, offset by offset, and
not the wish it was made from. "The end" is another offset a second later.
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
    """A partition, where the group is, and where it would be."""

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
    """What a reset would do."""

    group: str
    topic: str
    way: str
    value: str
    rows: tuple[ResetRow, ...]
    is_empty: bool
    """Whether the group has no members; while it has, brokers refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A partition as a reset sees it. `at_time` is -1 if nothing is as new."""

    place: TopicPartition
    start: int
    end: int
    before: int | None
    at_time: int = -1


def planned_rows(logs: Sequence[Log], way: str, number: int) -> tuple[ResetRow, ...]:
    """New offsets, never outside of the log: the next poll would only be reset again."""
    rows = []
    for log in logs:
        wanted = _wanted(log, way, number)
        if wanted is None:
            continue
        after = min(max(wanted, log.start), log.end)
        note = None
        if wanted < after:
            note = f"begins at {after}"
        elif wanted > after:
            note = f"ends at {after}"
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


def _wanted(log: Log, way: str, number: int) -> int | None:
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
            # What has no offset cannot be moved from where it is.
            return None if log.before is None else log.before + number


def write_plan(rows: Sequence[ResetRow]) -> str:
    """The plan as a form carries it, a partition a line."""
    return "\n".join(f"{row.topic} {row.partition} {row.after}" for row in rows)


def read_plan(text: str) -> dict[TopicPartition, int]:
    found = {}
    lines = text.split("\n")
    if len(lines) > PLAN_ROWS_MAX:
        raise bad_request(f"A reset has at most {PLAN_ROWS_MAX} partitions.")
    for line in lines:
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or any(each.startswith("-") for each in words[1:]):
            raise bad_request("This is no plan: a line is 'topic partition offset'.")
        place = TopicPartition(words[0], whole_int32(words[1], "partition"))
        found[place] = whole(words[2], "offset")
    if not found:
        raise bad_request("The plan is empty: it names no partition.")
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
