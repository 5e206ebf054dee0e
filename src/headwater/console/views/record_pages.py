"""Which records of a topic make a page, when several partitions have some: pure.

Partitions have an order of their own and none among each other. A page takes from each what it
holds, oldest first, and mixes them by timestamp without ever turning two records of one partition
around. Where the page began and ended is an offset for each partition, a `Cursor`, which the next
page goes on from.

What a reader would get wrong: what was read is often more than what is shown. The offsets of a page
enclose what it *shows*, and what was searched in vain; what was found beyond is found again.
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
    """What a search found in one partition, in order, between two offsets it has looked at."""

    low: int
    high: int
    records: list[ConsumerRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """Records, oldest first, and the offsets between which there are no others that match."""

    records: tuple[ConsumerRecord, ...]
    lows: dict[int, int]
    highs: dict[int, int]


def first_records(finds: Mapping[int, Finds], limit: int) -> RecordPage:
    """The oldest of what was found from a place on."""
    taken = _mixed({key: each.records for key, each in finds.items()}, limit, _by_time)
    counts = _counts(taken)
    highs = {}
    for number, found in finds.items():
        count = counts.get(number, 0)
        left = found.records[count:]
        highs[number] = left[0].offset if left else found.high
    lows = {number: found.low for number, found in finds.items()}
    return RecordPage(records=tuple(taken), lows=lows, highs=highs)


def last_records(finds: Mapping[int, Finds], limit: int) -> RecordPage:
    """The newest of what was found before a place."""
    backwards = {key: each.records[::-1] for key, each in finds.items()}
    taken = _mixed(backwards, limit, lambda record: tuple(-each for each in _by_time(record)))
    counts = _counts(taken)
    lows = {}
    for number, found in finds.items():
        count = counts.get(number, 0)
        left = found.records[: len(found.records) - count]
        lows[number] = left[-1].offset + 1 if left else found.low
    highs = {number: found.high for number, found in finds.items()}
    return RecordPage(records=tuple(reversed(taken)), lows=lows, highs=highs)


def read_cursor(text: str) -> dict[int, int]:
    """`0:12,3:40` as offsets of partitions."""
    if len(text) > CURSOR_CHARS_MAX:
        raise bad_request("This place in the topic is too long.")
    found = {}
    for each in text.split(","):
        number, _, offset = each.partition(":")
        if not _is_number(number) or not _is_number(offset):
            raise bad_request(f"'{each[:40]}' is no place such as 0:12 (partition and offset).")
        found[int(number)] = int(offset)
    return found


def write_cursor(cursor: Cursor) -> str:
    return ",".join(f"{number}:{offset}" for number, offset in sorted(cursor.items()))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _by_time(record: ConsumerRecord) -> tuple[int, ...]:
    return (record.timestamp, record.partition)


def _mixed(
    partitions: Mapping[int, Sequence[ConsumerRecord]],
    limit: int,
    key: Callable[[ConsumerRecord], tuple[int, ...]],
) -> list[ConsumerRecord]:
    """A merge that looks at the head of each partition only, and so keeps the order within."""
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
