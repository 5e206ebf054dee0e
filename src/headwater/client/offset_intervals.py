"""Process offsets [start, end) once per run of a scheduler.

    intervals = OffsetIntervals(settings, group_id="warehouse", topics=["orders"])
    with intervals.claim("2026-01-01T10:00") as interval:
        if interval:
            write(f"orders/{interval.name}", interval.records())

An interval is written to the group's committed offsets before it is processed: the offset is its
start, and the metadata has its end. A run that is killed and retried gets the same interval with
the same name, so a job that replaces what is under that name has each record once. After the block
the end is committed, with the run's id: a retry of a run that has succeeded gets None.

Note: one run of a group at a time. Schedulers have a setting for it (`max_active_runs=1`).
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from headwater.client.errors import OffsetOutOfRange
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.common.ids import TopicPartition

if TYPE_CHECKING:
    from headwater.client.consumer.blocking_consumer import Consumer
    from headwater.records.consumer_record import ConsumerRecord

_POLL_S: Final = 30.0
_DIGITS: Final = 12

Ranges = dict[TopicPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class OffsetInterval:
    """Offsets [start, end) of partitions."""

    ranges: Mapping[TopicPartition, tuple[int, int]]
    _open: "Callable[[], Consumer]" = field(compare=False, repr=False)

    def __len__(self) -> int:
        """The number of offsets, which may be more than there are records."""
        return sum(end - start for start, end in self.ranges.values())

    @property
    def name(self) -> str:
        """The same for the same offsets: for a file, a partition of a table or a batch id."""
        return hashlib.sha256(json.dumps(_listed(self.ranges)).encode()).hexdigest()[:_DIGITS]

    def records(self) -> "Iterator[ConsumerRecord]":
        """Read the records, with `read_committed` unless the settings say otherwise."""
        left = {place for place, (start, end) in self.ranges.items() if start < end}
        with self._open() as consumer:
            consumer.assign(sorted(left))
            for place in sorted(left):
                consumer.seek(place, self.ranges[place][0])
            while left:
                for record in consumer.poll(_POLL_S):
                    place = TopicPartition(record.topic, record.partition)
                    if record.offset < self.ranges[place][1]:
                        yield record
                # Records that are not there, such as compacted ones, move the position, too.
                left = {each for each in left if consumer.position(each) < self.ranges[each][1]}

    def spark_options(self) -> dict[str, str]:
        """Options for `spark.read.format("headwater")`, or Spark's own connector."""
        edges: list[dict[str, dict[str, int]]] = [{}, {}]
        for place, both in sorted(self.ranges.items()):
            for edge, offset in zip(edges, both, strict=True):
                edge.setdefault(place.topic, {})[str(place.partition)] = offset
        assigned = {topic: [int(each) for each in offsets] for topic, offsets in edges[0].items()}
        return {
            "assign": json.dumps(assigned),
            "startingOffsets": json.dumps(edges[0]),
            "endingOffsets": json.dumps(edges[1]),
        }


class OffsetIntervals:
    """Claims intervals of topics for the runs of a consumer group."""

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        group_id: str,
        topics: Sequence[str],
        max_offsets: int | None = None,
    ) -> None:
        """Take a consumer's settings; `max_offsets` bounds a partition's interval."""
        self._settings = {
            "isolation.level": "read_committed",
            "auto.offset.reset": "none",
            **settings,
            "group.id": group_id,
            "enable.auto.commit": False,
        }
        self._topics = list(topics)
        self._max_offsets = max_offsets

    @contextmanager
    def claim(
        self, run_id: str, *, until: datetime | None = None
    ) -> Iterator[OffsetInterval | None]:
        """The interval of a run, committed if the block succeeds.

        It ends at the present end of the topics, or before the first record with a timestamp of
        `until` or later. None if this run has succeeded before, or there is nothing to process.
        """
        with self._consumer() as consumer:
            places = [
                TopicPartition(topic, number)
                for topic in self._topics
                for number in consumer.partitions_for(topic)
            ]
            claimed = self._claim(consumer, places, run_id, until)
            if claimed is None:
                yield None
                return
            yield OffsetInterval(claimed, self._consumer)
            done = _metadata({"done": run_id})
            consumer.commit(
                {place: OffsetAndMetadata(end, done) for place, (_, end) in claimed.items()}
            )

    def _claim(
        self,
        consumer: "Consumer",
        places: list[TopicPartition],
        run_id: str,
        until: datetime | None,
    ) -> Ranges | None:
        committed = consumer.committed(places)
        if is_done(committed, run_id):
            return None
        begins = consumer.beginning_offsets(places)
        ranges = pending(committed)
        if not ranges:
            ends = consumer.end_offsets(places)
            if until is not None:
                at_ms = round(until.timestamp() * 1_000)
                found = consumer.offsets_for_times(dict.fromkeys(places, at_ms))
                ends |= {place: each.offset for place, each in found.items() if each is not None}
            ranges = planned(committed, begins, ends, self._max_offsets)
            if not ranges:
                return None
            consumer.commit(
                {
                    place: OffsetAndMetadata(start, _metadata({"run": run_id, "end": end}))
                    for place, (start, end) in ranges.items()
                }
            )
        for place, (start, _) in ranges.items():
            if start < begins[place]:
                raise OffsetOutOfRange(
                    f"{place}: offsets {start} to {begins[place]} are deleted and not processed; "
                    "reset the group's offsets to go on without them"
                )
        return ranges

    def _consumer(self) -> "Consumer":
        from headwater.client.consumer.blocking_consumer import Consumer

        return Consumer(self._settings)


Committed = Mapping[TopicPartition, OffsetAndMetadata]


def is_done(committed: Committed, run_id: str) -> bool:
    return any(_read(each.metadata).get("done") == run_id for each in committed.values())


def pending(committed: Committed) -> Ranges:
    """Return the interval that was claimed and not finished."""
    found = {}
    for place, each in committed.items():
        end = _read(each.metadata).get("end")
        if isinstance(end, int):
            found[place] = (each.offset, end)
    return found


def planned(
    committed: Committed,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    max_offsets: int | None,
) -> Ranges:
    """Return offsets from the committed ones to the ends."""
    found = {}
    for place, end in ends.items():
        start = committed[place].offset if place in committed else begins[place]
        limit = end if max_offsets is None else min(end, start + max_offsets)
        if start < limit:
            found[place] = (start, limit)
    return found


def _listed(ranges: Mapping[TopicPartition, tuple[int, int]]) -> list[list[Any]]:
    return [[place.topic, place.partition, *both] for place, both in sorted(ranges.items())]


def _metadata(values: Mapping[str, object]) -> str:
    return json.dumps({"headwater": values})


def _read(metadata: str) -> dict[str, Any]:
    """What this module has written; other metadata of a group is ignored."""
    try:
        found = json.loads(metadata)
    except ValueError:
        return {}
    values = found.get("headwater") if isinstance(found, dict) else None
    return values if isinstance(values, dict) else {}
