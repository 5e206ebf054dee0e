"""Check a cluster's guarantees from what clients observed and the final log. Pure.

Note: a record that was not acknowledged may be in the log or not. Within one producer epoch it must
not be there twice, and not before a record that the same producer sent earlier. But librdkafka
bumps its epoch when a later batch fails as out of order, and sends unanswered batches again;
brokers cannot recognise such a copy, and it is in `Observations.sent_again`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

Log = Mapping[int, Sequence[tuple[int, bytes]]]
"""Contents of partitions: offsets and values, in order."""

_MAX_VIOLATIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """`offset` is None if librdkafka inferred it: the record's own response was lost, but the
    response to the next batch shows that it is in the log.
    """

    partition: int
    offset: int | None
    value: bytes


@dataclass(slots=True)
class Observations:
    """What clients have done and observed."""

    sent: dict[int, list[bytes]] = field(default_factory=dict)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    # Partition, offset and value of all records that a tailing consumer has seen.
    seen: list[tuple[int, int, bytes]] = field(default_factory=list)
    # Values that are in a partition under two producer epochs, once in each.
    sent_again: set[tuple[int, bytes]] = field(default_factory=set)
    # Offsets that a group has processed, and those whose commit succeeded.
    handled: set[bytes] = field(default_factory=set)
    committed: dict[int, int] = field(default_factory=dict)


class Fate(Enum):
    """Outcome of a transaction, as its producer knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


def broken_transactions(
    fates: Mapping[int, Fate], found: Mapping[int, int], *, whole: int
) -> Iterator[str]:
    """Return violations.

    `found` has the number of records of each transaction that a read_committed consumer gets, and
    `whole` the number in a complete one.
    """
    allowed = {
        Fate.COMMITTED: (whole,),
        Fate.ABORTED: (0,),
        Fate.UNKNOWN: (0, whole),
    }
    for number in sorted({*fates, *found}):
        fate = fates.get(number, Fate.ABORTED)
        if found.get(number, 0) not in allowed[fate]:
            yield f"{found.get(number, 0)} of {whole} records of {fate.value} transaction {number}"


def violations(observed: Observations, log: Log, committed_at_last: Mapping[int, int]) -> list[str]:
    """Return violations; not all of them if there are many."""
    return [
        *islice(_broken_offsets(log), _MAX_VIOLATIONS),
        *islice(_lost_or_moved(observed, log), _MAX_VIOLATIONS),
        *islice(_doubled_or_strange(observed, log), _MAX_VIOLATIONS),
        *islice(_out_of_order(observed, log), _MAX_VIOLATIONS),
        *islice(_vanished(observed, log), _MAX_VIOLATIONS),
        *islice(_forgotten_by_group(observed, log, committed_at_last), _MAX_VIOLATIONS),
    ]


def value_of(producer: int, number: int) -> bytes:
    """Return the value of a producer's record with this number."""
    return b"%d:%d" % (producer, number)


def _broken_offsets(log: Log) -> Iterator[str]:
    for partition, records in log.items():
        for expected, (offset, _) in enumerate(records):
            if offset != expected:
                yield f"partition {partition} has offset {offset} where {expected} should be"
                break


def _lost_or_moved(observed: Observations, log: Log) -> Iterator[str]:
    for each in observed.acknowledged:
        records = log[each.partition]
        if each.offset is None:
            continue
        found = records[each.offset] if each.offset < len(records) else None
        if found != (each.offset, each.value):
            yield f"acknowledged {each}, but there is {found}"
    values = {partition: {value for _, value in records} for partition, records in log.items()}
    for each in observed.acknowledged:
        if each.value not in values[each.partition]:
            yield f"acknowledged {each} is lost"


def _doubled_or_strange(observed: Observations, log: Log) -> Iterator[str]:
    for partition, records in log.items():
        sent = set(observed.sent.get(partition, ()))
        for value, times in Counter(value for _, value in records).items():
            if times > 1 + ((partition, value) in observed.sent_again):
                yield f"{value!r} is {times} times in partition {partition}"
            if value not in sent:
                yield f"{value!r} is in partition {partition}, where it was not sent"


def _out_of_order(observed: Observations, log: Log) -> Iterator[str]:
    for partition, records in log.items():
        newest: dict[bytes, int] = {}
        for offset, value in records:
            producer, _, number = value.partition(b":")
            is_copy = (partition, value) in observed.sent_again
            if int(number) < newest.get(producer, -1) and not is_copy:
                yield f"{value!r} is behind a later one, at {offset} of partition {partition}"
            newest[producer] = max(int(number), newest.get(producer, -1))


def _vanished(observed: Observations, log: Log) -> Iterator[str]:
    for partition, offset, value in observed.seen:
        records = log[partition]
        found = records[offset] if offset < len(records) else None
        if found != (offset, value):
            yield f"{value!r} was seen at {offset} of partition {partition}, and now it is {found}"


def _forgotten_by_group(
    observed: Observations, log: Log, committed_at_last: Mapping[int, int]
) -> Iterator[str]:
    for partition, offset in observed.committed.items():
        last = committed_at_last.get(partition, -1)
        if last < offset:
            yield f"offset {offset} of partition {partition} was committed, and now it is {last}"
    for partition, records in log.items():
        for offset, value in records:
            if value not in observed.handled:
                yield f"the group never got {value!r}, at {offset} of partition {partition}"
