"""Whether what a cluster promised was kept: pure, over what clients heard and the final log.

What a reader would get wrong: a record that was not acknowledged may be in the log or not. It may
not be there twice, and not before one that the same producer sent earlier, within one epoch of its
producer. But librdkafka takes a new epoch when a later batch is refused as out of order, and sends
again what it has no answer for; brokers cannot know such a copy, and it is `Heard.sent_again`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

Log = Mapping[int, Sequence[tuple[int, bytes]]]
"""What partitions hold: offsets and values, in order."""

_MOST_COMPLAINTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """`offset` is None where librdkafka took it from the next batch's answer that this one is in
    the log too: the answer of its own had been lost."""

    partition: int
    offset: int | None
    value: bytes


@dataclass(slots=True)
class Heard:
    """What clients have done and heard."""

    sent: dict[int, list[bytes]] = field(default_factory=dict)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    # What a consumer that reads along has seen: partition, offset, value.
    seen: list[tuple[int, int, bytes]] = field(default_factory=list)
    # What lies in a partition under two epochs of its producer, once in each.
    sent_again: set[tuple[int, bytes]] = field(default_factory=set)
    # What a group has handled, and the offsets whose commit it was told of.
    handled: set[bytes] = field(default_factory=set)
    committed: dict[int, int] = field(default_factory=dict)


class Fate(Enum):
    """What a producer was told of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


def broken_transactions(
    fates: Mapping[int, Fate], found: Mapping[int, int], *, whole: int
) -> Iterator[str]:
    """What is wrong; `found` says how many records of each transaction a reader of committed ones
    gets, and `whole` how many there are in one."""
    allowed = {
        Fate.COMMITTED: (whole,),
        Fate.ABORTED: (0,),
        Fate.UNKNOWN: (0, whole),
    }
    for number in sorted({*fates, *found}):
        fate = fates.get(number, Fate.ABORTED)
        if found.get(number, 0) not in allowed[fate]:
            yield f"{found.get(number, 0)} of {whole} records of {fate.value} transaction {number}"


def complaints(heard: Heard, log: Log, committed_at_last: Mapping[int, int]) -> list[str]:
    """What is wrong; not all of it if it is much."""
    return [
        *islice(_broken_offsets(log), _MOST_COMPLAINTS),
        *islice(_lost_or_moved(heard, log), _MOST_COMPLAINTS),
        *islice(_doubled_or_strange(heard, log), _MOST_COMPLAINTS),
        *islice(_out_of_order(heard, log), _MOST_COMPLAINTS),
        *islice(_vanished(heard, log), _MOST_COMPLAINTS),
        *islice(_forgotten_by_group(heard, log, committed_at_last), _MOST_COMPLAINTS),
    ]


def value_of(producer: int, number: int) -> bytes:
    """What a producer writes as its record of this number."""
    return b"%d:%d" % (producer, number)


def _broken_offsets(log: Log) -> Iterator[str]:
    for partition, records in log.items():
        for expected, (offset, _) in enumerate(records):
            if offset != expected:
                yield f"partition {partition} has offset {offset} where {expected} should be"
                break


def _lost_or_moved(heard: Heard, log: Log) -> Iterator[str]:
    for each in heard.acknowledged:
        records = log[each.partition]
        if each.offset is None:
            continue
        found = records[each.offset] if each.offset < len(records) else None
        if found != (each.offset, each.value):
            yield f"acknowledged {each}, but there is {found}"
    values = {partition: {value for _, value in records} for partition, records in log.items()}
    for each in heard.acknowledged:
        if each.value not in values[each.partition]:
            yield f"acknowledged {each} is lost"


def _doubled_or_strange(heard: Heard, log: Log) -> Iterator[str]:
    for partition, records in log.items():
        sent = set(heard.sent.get(partition, ()))
        for value, times in Counter(value for _, value in records).items():
            if times > 1 + ((partition, value) in heard.sent_again):
                yield f"{value!r} is {times} times in partition {partition}"
            if value not in sent:
                yield f"{value!r} is in partition {partition}, and nobody sent it there"


def _out_of_order(heard: Heard, log: Log) -> Iterator[str]:
    for partition, records in log.items():
        newest: dict[bytes, int] = {}
        for offset, value in records:
            producer, _, number = value.partition(b":")
            is_copy = (partition, value) in heard.sent_again
            if int(number) < newest.get(producer, -1) and not is_copy:
                yield f"{value!r} is behind a later one, at {offset} of partition {partition}"
            newest[producer] = max(int(number), newest.get(producer, -1))


def _vanished(heard: Heard, log: Log) -> Iterator[str]:
    for partition, offset, value in heard.seen:
        records = log[partition]
        found = records[offset] if offset < len(records) else None
        if found != (offset, value):
            yield f"{value!r} was seen at {offset} of partition {partition}, and now it is {found}"


def _forgotten_by_group(
    heard: Heard, log: Log, committed_at_last: Mapping[int, int]
) -> Iterator[str]:
    for partition, offset in heard.committed.items():
        last = committed_at_last.get(partition, -1)
        if last < offset:
            yield f"offset {offset} of partition {partition} was committed, and now it is {last}"
    for partition, records in log.items():
        for offset, value in records:
            if value not in heard.handled:
                yield f"the group never got {value!r}, at {offset} of partition {partition}"
