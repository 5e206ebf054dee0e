"""The source for PySpark: a reader for batch queries and one for streams.

`stream_position`, `offset_reader` and `batch_plan` make the decisions. Note: one copy of a stream's
reader lives in the driver as long as the query, and other copies are pickled to workers for every
task. So the driver's clients are created on first use, not in the constructor.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.common.ids import TopicPartition
from headwater.spark.formats.typed_values import TypedColumn
from headwater.spark.source.batch_plan import OffsetRange, split_ranges
from headwater.spark.source.offset_reader import OffsetReader
from headwater.spark.source.range_task import RangeTask, rows_of
from headwater.spark.source.source_options import SourceOptions
from headwater.spark.source.stream_position import StreamPosition
from headwater.spark.source.topic_offsets import Position, from_document, to_document

_log = logging.getLogger(__name__)

# The driver reads only to estimate record sizes.
_SMALL_LOOKS: Final = {"max.partition.fetch.bytes": "65536"}


class TaskPartition(InputPartition):
    def __init__(self, task: RangeTask) -> None:
        super().__init__(task)
        self.task = task


class RowShape:
    """Columns of the rows."""

    def __init__(self, columns: Mapping[str, str], typed: Mapping[str, TypedColumn]) -> None:
        self.columns = tuple(columns)
        self.typed = dict(typed)
        self.texts = frozenset(
            name for name in ("key", "value") if columns.get(name) == "string" and name not in typed
        )


class TopicReader(DataSourceReader):
    """Reader of a batch query."""

    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        self._options = options
        self._shape = shape

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with OffsetRangeReader(options.client) as brokers:
            lookup = _lookup(brokers, options)
            start, end = lookup.begin(options.starting), lookup.end(options.ending)
        ranges = [OffsetRange(each, start[each], end[each]) for each in sorted(start)]
        # Spark plans a batch frame once, and runs it again with every batch of a stream that it is
        # joined with. Such a frame has a task for each partition, including empty ones.
        parts = (
            ranges
            if options.at_present
            else split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        )
        return [TaskPartition(_task(options, self._shape, each)) for each in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return rows_of(partition.task)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a streaming query."""

    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        self._options = options
        self._shape = shape
        self._brokers: OffsetRangeReader | None = None
        self._position: StreamPosition | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_document(self._at().initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # Spark's read limits cannot combine a minimum and a maximum, so limits are applied here.
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, ARG002
        return to_document(self._at().next_end(from_document(start)))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        latest = self._at().latest
        return to_document(Position(latest)) if latest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._at().stop_at_present()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._at().plan(from_document(start), from_document(end))
        return [TaskPartition(_task(self._options, self._shape, each)) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return rows_of(partition.task)

    def commit(self, end: dict[str, Any]) -> None:
        """Ignore Spark's late call for a finished batch; a listener commits earlier."""

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None
            self._position = None

    def _at(self) -> StreamPosition:
        if self._position is None:
            brokers = self._brokers = OffsetRangeReader({**_SMALL_LOOKS, **self._options.client})
            self._position = StreamPosition(
                self._options,
                _lookup(brokers, self._options),
                measure=partial(_bytes_per_offset, brokers),
                steady_ms=lambda: time.monotonic_ns() // 1_000_000,
                warn=lambda loss: _log.warning("%s", loss),
            )
        return self._position

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without connections."""
        return {**self.__dict__, "_brokers": None, "_position": None}


def _bytes_per_offset(brokers: OffsetRangeReader, partition: TopicPartition, offset: int) -> float:
    """Return bytes per offset of the next fetched data of a partition."""
    for fetched in brokers.read(partition, offset, offset + 1):
        return len(fetched.data) / max(fetched.next_offset - offset, 1)
    return 1.0


def _lookup(brokers: OffsetRangeReader, options: SourceOptions) -> OffsetReader:
    return OffsetReader(
        brokers, options.subscription, latest_if_no_match=options.latest_if_no_match
    )


def _task(options: SourceOptions, shape: RowShape, part: OffsetRange) -> RangeTask:
    return RangeTask(
        range=part,
        client=dict(options.client),
        columns=shape.columns,
        texts=shape.texts,
        typed=shape.typed,
        row_type=options.row_type,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout_ms=options.poll_timeout_ms,
        at_present=options.at_present,
    )
