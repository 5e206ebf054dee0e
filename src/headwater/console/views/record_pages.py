"""Merge records of several partitions into pages. Pure.

Records are ordered within a partition only. A page merges them by timestamp without reordering
records of one partition. Its first and last position is a `Cursor`, one offset per partition, from
which the next page continues.

Note: usually more records are read than shown. A page's cursors enclose the records that it shows
and the offsets without matches; matches beyond are found again by the next page.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.console.console_errors import bad_request
from headwater.records.consumer_record import ConsumerRecord

Cursor = Mapping[int, int]
"""An offset for each partition."""

CURSOR_CHARS_MAX: Final = 20_000


@dataclass(slots=True)
class Finds:
    """Matches in one partition, in order, within the offsets searched so far."""

    low: int
    high: int
    records: list[ConsumerRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """Records, oldest first, and offsets between which there are no other matches."""

    records: tuple[ConsumerRecord, ...]
    lows: dict[int, int]
    highs: dict[int, int]


def first_records(finds: Mapping[int, Finds], limit: int) -> RecordPage:
    """The oldest matches after a cursor."""
    taken = _merged({key: each.records for key, each in finds.items()}, limit, _by_time)
    counts = _counts(taken)
    highs = {}
    for number, found in finds.items():
        count = counts.get(number, 0)
        remaining = found.records[count:]
        highs[number] = remaining[0].offset if remaining else found.high
    lows = {number: found.low for number, found in finds.items()}
    return RecordPage(records=tuple(taken), lows=lows, highs=highs)


def last_records(finds: Mapping[int, Finds], limit: int) -> RecordPage:
    """The newest matches before a cursor."""
    backwards = {key: each.records[::-1] for key, each in finds.items()}
    taken = _merged(backwards, limit, lambda record: tuple(-each for each in _by_time(record)))
    counts = _counts(taken)
    lows = {}
    for number, found in finds.items():
        count = counts.get(number, 0)
        remaining = found.records[: len(found.records) - count]
        lows[number] = remaining[-1].offset + 1 if remaining else found.low
    highs = {number: found.high for number, found in finds.items()}
    return RecordPage(records=tuple(reversed(taken)), lows=lows, highs=highs)


def read_cursor(text: str) -> dict[int, int]:
    """Parse `0:12,3:40` as offsets of partitions."""
    if len(text) > CURSOR_CHARS_MAX:
        raise bad_request("The cursor is too long.")
    found = {}
    for each in text.split(","):
        number, _, offset = each.partition(":")
        if not _is_number(number) or not _is_number(offset):
            raise bad_request(
                f"Invalid cursor '{each[:40]}'. Expected partition:offset, such as 0:12."
            )
        found[int(number)] = int(offset)
    return found


def write_cursor(cursor: Cursor) -> str:
    return ",".join(f"{number}:{offset}" for number, offset in sorted(cursor.items()))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _by_time(record: ConsumerRecord) -> tuple[int, ...]:
    return (record.timestamp, record.partition)


def _merged(
    partitions: Mapping[int, Sequence[ConsumerRecord]],
    limit: int,
    key: Callable[[ConsumerRecord], tuple[int, ...]],
) -> list[ConsumerRecord]:
    """Merge by comparing the first record of each partition, which keeps their order."""
    heads = [(key(records[0]), number, 0) for number, records in partitions.items() if records]
    heapq.heapify(heads)
    taken: list[ConsumerRecord] = []
    while heads and len(taken) < limit:
        _, number, index = heapq.heappop(heads)
        records = partitions[number]
        taken.append(records[index])
        if index + 1 < len(records):
            heapq.heappush(heads, (key(records[index + 1]), number, index + 1))
    return taken


def _counts(records: Sequence[ConsumerRecord]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for record in records:
        counts[record.partition] = counts.get(record.partition, 0) + 1
    return counts
