"""Choose the offsets of a batch and split them into tasks.

The rules are those of Spark's Kafka connector, so that a query reads the same batches after a
change of connectors. Note: a number of offsets is not a number of records. Compaction and
transaction markers leave gaps, so every limit is an upper bound.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.common.ids import TopicPartition
from headwater.spark.source.topic_offsets import Offsets

_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition that one task reads, without the end offset."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges of a batch, and the data that was lost."""

    ranges: tuple[OffsetRange, ...]
    losses: tuple[str, ...]


def bounded(latest: Offsets, start: Offsets, until: Offsets) -> dict[TopicPartition, int]:
    """Return the end offsets for a stream that ends at `until`.

    A partition that `until` does not name is not read any further. An end is never before the
    start: timestamps, from which both may come, do not grow with offsets.
    """
    ends = {}
    for each, end in latest.items():
        if each in until:
            ends[each] = max(min(end, until[each]), start.get(each, 0))
        elif each in start:
            ends[each] = start[each]
    return ends


def limited(limit: int, start: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Return end offsets so that all partitions together read about `limit` offsets.

    The limit is shared in proportion to the unread offsets. A share below one is rounded up, so
    that a small partition beside a large one is not starved; all others are rounded down.
    """
    sizes = {each: max(end - start.get(each, end), 0) for each, end in latest.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(latest)
    ends = {}
    for each, end in latest.items():
        share = limit * (sizes[each] / total)
        whole = math.ceil(share) if share < 1 else math.floor(share)
        ends[each] = min(end, start.get(each, end) + whole, _LONG_MAX)
    return ends


def limited_bytes(
    limit_bytes: int,
    start: Offsets,
    latest: Offsets,
    bytes_per_offset: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """Return end offsets with which a batch reads about `limit_bytes` in total.

    The size of unread records is estimated from the first of each partition, `bytes_per_offset`.
    """
    sizes = {
        each: (end - start.get(each, end)) * max(bytes_per_offset[each], 1.0)
        for each, end in latest.items()
        if end > start.get(each, end)
    }
    total = sum(sizes.values())
    if total <= limit_bytes:
        return dict(latest)
    ends = dict(latest)
    for each in sizes:
        share = (latest[each] - start[each]) * (limit_bytes / total)
        # At least one, or a record that is larger than the limit would never be read.
        ends[each] = min(latest[each], start[each] + max(math.floor(share), 1))
    return ends


def is_enough(
    minimum: int, start: Offsets, latest: Offsets, *, waited_ms: int, max_delay_ms: int
) -> bool:
    """Whether to start a batch: there are enough offsets, or the delay has passed."""
    if waited_ms >= max_delay_ms:
        return True
    return sum(max(end - start.get(each, 0), 0) for each, end in latest.items()) >= minimum


def batch_plan(
    start: Offsets,
    end: Offsets,
    earliest_of_new: Offsets,
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> Plan:
    """Return the ranges from one position to another.

    A partition that is only in `end` is new and starts at `earliest_of_new`. One that is only in
    `start` was deleted.
    """
    losses = []
    gone = sorted(each for each in start if each not in end)
    if gone:
        losses.append(f"{_named(gone)} were deleted before all their records were read")
    ranges = []
    for each in sorted(end):
        begin = start.get(each)
        if begin is None:
            begin = earliest_of_new.get(each)
            if begin is None:
                losses.append(f"{each} was created and deleted before it was read")
                continue
            if begin > 0:
                losses.append(f"{each} is new and starts at {begin} instead of 0")
        if end[each] < begin:
            losses.append(f"{each} ended at {begin} and now ends at {end[each]}")
        ranges.append(OffsetRange(each, begin, end[each]))
    return Plan(
        tuple(split_ranges(ranges, min_partitions, max_records_per_partition)), tuple(losses)
    )


def split_ranges(
    ranges: Sequence[OffsetRange],
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[OffsetRange]:
    """Ranges for tasks; large ones are split into about `min_partitions`."""
    found = [each for each in ranges if each.size > 0]
    if max_records_per_partition is not None:
        found = [
            part
            for each in found
            for part in _cut(each, math.ceil(each.size / max_records_per_partition))
        ]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(each.size for each in found)
    # Ranges that are not split do not count, or the large ones would get too few tasks.
    whole = [each for each in found if _parts(each.size, total, min_partitions) == 1]
    rest = total - sum(each.size for each in whole)
    wanted = max(min_partitions - len(whole), 1)
    small = dict.fromkeys(whole)
    return [
        part
        for each in found
        for part in _cut(each, 1 if each in small else _parts(each.size, rest, wanted))
    ]


def _parts(size: int, total: int, wanted: int) -> int:
    # Round half up, like Java.
    return max(math.floor(size / total * wanted + 0.5), 1)


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    parts = []
    start, left = whole.start, whole.size
    for number in range(count):
        size = left // (count - number)
        left -= size
        parts.append(OffsetRange(whole.partition, start, start + size))
        start += size
    return [part for part in parts if part.size > 0]


def _named(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
