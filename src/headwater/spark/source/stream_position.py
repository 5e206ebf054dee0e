"""Positions of a streaming query: where batches start and end. Pure.

Spark asks for the start, then again and again for the newest offset, and turns each pair into a
batch. This is all that is decided on the way, without Spark and without a socket. What a reader
would get wrong: Spark asks for the start more than once, and again after a restart as long as the
first batch is not finished. The start is therefore decided once, and the first end carries it.
"""

from collections.abc import Callable, Mapping

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import DataLost
from headwater.spark.source.batch_plan import (
    OffsetRange,
    batch_plan,
    bounded,
    is_enough,
    limited,
    limited_bytes,
)
from headwater.spark.source.offset_reader import OffsetReader
from headwater.spark.source.source_options import SourceOptions
from headwater.spark.source.topic_offsets import Offsets, Position

# How many bytes an offset takes in the log, from some offset on.
Measure = Callable[[TopicPartition, int], float]

_ADVICE = "; set failOnDataLoss to false to go on without what is lost"


class StreamPosition:
    """One streaming query's offsets. `steady_ms` is a clock that never goes back.

    `measure` is asked only where a limit in bytes is to be kept.
    """

    def __init__(
        self,
        options: SourceOptions,
        lookup: OffsetReader,
        *,
        steady_ms: Callable[[], int],
        warn: Callable[[str], None],
        measure: Measure,
    ) -> None:
        self._options = options
        self._lookup = lookup
        self._steady_ms = steady_ms
        self._warn = warn
        self._measure = measure
        self._start: Offsets | None = None
        self._latest: Offsets = {}
        self._last_batch_ms: int | None = None
        self._stops_at: Offsets | None = None

    @property
    def latest(self) -> Offsets:
        """The ends of all partitions, as they were last seen."""
        return self._latest

    def initial(self) -> Position:
        if self._start is None:
            self._start = self._lookup.begin(self._options.starting)
        return Position(self._start)

    def stop_at_present(self) -> None:
        """Read what is there by now, in as many batches as it takes, and nothing after it."""
        self._stops_at = self._lookup.latest(self._lookup.partitions())

    def next_end(self, at: Position) -> Position:
        """The end of the batch at a position; the same position if there is no data."""
        start = at.offsets
        latest = self._stops_at or self._lookup.latest(self._lookup.partitions())
        if self._options.until is not None:
            latest = bounded(latest, start, self._options.until)
        self._latest = latest
        known = self._known_starts(start, latest)
        if not self._is_due(known, latest):
            return at
        end: Mapping[TopicPartition, int] = latest
        if self._options.max_offsets is not None:
            end = limited(self._options.max_offsets, known, end)
        if self._options.max_bytes is not None:
            sizes = {
                each: self._measure(each, known[each])
                for each in sorted(end)
                if known[each] < end[each]
            }
            end = limited_bytes(self._options.max_bytes, known, end, sizes)
        if end == start:
            return at
        is_first = self._start is not None and start == self._start
        return Position(end, start if is_first else None)

    def plan(self, start: Position, end: Position) -> list[OffsetRange]:
        """The tasks of a batch. Raises `DataLost` if records that it needs are gone."""
        begin = end.start if end.start is not None else start.offsets
        new = [each for each in end.offsets if each not in begin]
        plan = batch_plan(
            begin,
            end.offsets,
            self._lookup.earliest(new),
            min_partitions=self._options.min_partitions,
            max_records_per_partition=self._options.max_records_per_partition,
        )
        for loss in plan.losses:
            if self._options.fail_on_data_loss:
                raise DataLost(f"{loss}{_ADVICE}")
            self._warn(loss)
        return list(plan.ranges)

    def _known_starts(self, start: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
        new = [each for each in latest if each not in start]
        return dict(start) | self._lookup.earliest(new)

    def _is_due(self, start: Offsets, latest: Offsets) -> bool:
        minimum = self._options.min_offsets
        if minimum is None or self._stops_at is not None:
            return True
        now_ms = self._steady_ms()
        since_ms = self._last_batch_ms
        if since_ms is not None and not is_enough(
            minimum,
            start,
            latest,
            waited_ms=now_ms - since_ms,
            max_delay_ms=self._options.max_delay_ms,
        ):
            return False
        self._last_batch_ms = now_ms
        return True
