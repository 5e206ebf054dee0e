"""Positions of a streaming query: where batches start and end. Pure.

Spark requests the initial offset, then repeatedly the latest offset, and turns each pair into a
batch.

Note: Spark requests the initial offset more than once, and again after a restart until the first
batch has finished. It is therefore determined once, and stored in the first end offset.
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

# Bytes per offset in the log, from an offset on.
Measure = Callable[[TopicPartition, int], float]

_ADVICE = "; set failOnDataLoss to false to continue without the lost records"


class StreamPosition:
    """One streaming query's offsets. `steady_ms` is a clock that never goes back.

    `measure` is only called if there is a limit in bytes.
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
        """Return the last known end offsets of all partitions."""
        return self._latest

    def initial(self) -> Position:
        if self._start is None:
            self._start = self._lookup.begin(self._options.starting)
        return Position(self._start)

    def stop_at_present(self) -> None:
        """Read up to the current end offsets, in any number of batches, then end."""
        self._stops_at = self._lookup.latest(self._lookup.partitions())

    def next_end(self, at: Position) -> Position:
        """Return the end of the batch at a position; the same position without data."""
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
        """Return the ranges of a batch. Raises `DataLost` if records were deleted."""
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
