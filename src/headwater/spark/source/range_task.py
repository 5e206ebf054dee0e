"""Read one offset range of a partition in a task, and return it to Spark as rows.

Note: a range may have become shorter since it was planned. If retention has deleted its beginning,
the query fails, or continues after the gap with `failOnDataLoss=false`.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from headwater.client.consumer.offset_range_reader import FetchedBatches
from headwater.client.errors import KafkaError, OffsetOutOfRange
from headwater.common.ids import TopicPartition
from headwater.records.arrow_columns import decode_batches
from headwater.records.arrow_values import binaries, integer, integers, text
from headwater.spark.client_cache import cached_reader, drop_reader
from headwater.spark.exceptions import DataLost
from headwater.spark.formats.typed_values import TypedColumn
from headwater.spark.source.batch_plan import OffsetRange
from headwater.spark.source.row_decoder import ToRows, before, to_rows
from headwater.spark.source.source_options import RowType
from headwater.spark.source.topic_offsets import EARLIEST, LATEST

_log = logging.getLogger(__name__)

# A task reads as fast as possible, so large responses pay off.
_AT_ONCE: Final = {"max.partition.fetch.bytes": str(8 * 1024 * 1024)}
_ROWS_MAX: Final = 65_536

_BATCH_TYPES: Final[dict[str, pa.DataType]] = {
    "batch": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "baseOffset": pa.int64(),
    "lastOffset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "recordCount": pa.int32(),
}
_BATCH_SCHEMA: Final = pa.schema(_BATCH_TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTask:
    """Description of a task, which is sent to the worker."""

    range: OffsetRange
    # Hidden in logs, because they may contain credentials.
    client: Mapping[str, str] = field(repr=False)
    columns: tuple[str, ...]
    texts: frozenset[str]
    typed: Mapping[str, TypedColumn]
    row_type: RowType
    fail_on_data_loss: bool
    poll_timeout_ms: int
    at_present: bool = False


def rows_of(task: RangeTask) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range. Raises `DataLost` if records were deleted."""
    settings = {**_AT_ONCE, **task.client}
    if task.at_present:
        task = replace(task, range=_whole(task.range.partition, settings))
    partition, start, end = task.range.partition, task.range.start, task.range.end
    turn = _turning(task)
    while start < end:
        reader = cached_reader(settings)
        try:
            for fetched in reader.read(partition, start, end, timeout_ms=task.poll_timeout_ms):
                start = fetched.next_offset
                yield from turn(fetched)
            return
        except OffsetOutOfRange as error:
            earliest = reader.offsets({partition: EARLIEST})[partition].offset
            lost = f"{partition} lost its records from {start} to {min(earliest, end)}"
            if task.fail_on_data_loss or earliest <= start:
                advice = "set failOnDataLoss to false to continue without them"
                raise DataLost(f"{lost}; {advice}") from error
            _log.warning("%s", lost)
            start = earliest
        except KafkaError:
            drop_reader(settings)
            raise


def _whole(partition: TopicPartition, settings: Mapping[str, str]) -> OffsetRange:
    """Return the current range of a partition."""
    reader = cached_reader(settings)
    try:
        start = reader.offsets({partition: EARLIEST})[partition].offset
        return OffsetRange(partition, start, reader.offsets({partition: LATEST})[partition].offset)
    except KafkaError:
        drop_reader(settings)
        raise


def _turning(task: RangeTask) -> Callable[[FetchedBatches], Iterator[pa.RecordBatch]]:
    partition, end = task.range.partition, task.range.end
    if task.row_type is RowType.BATCH:
        return lambda fetched: _whole_batches(partition, end, fetched)
    make = to_rows(partition, task.columns, task.texts, task.typed)
    return lambda fetched: _records(make, end, fetched)


def _records(make: ToRows, end: int, fetched: FetchedBatches) -> Iterator[pa.RecordBatch]:
    if not fetched.batches:
        return
    records = decode_batches(fetched.data, fetched.batches, first_offset=fetched.first_offset)
    records = before(records, end)
    for first in range(0, records.num_rows, _ROWS_MAX):
        yield make(records.slice(first, _ROWS_MAX))


def _whole_batches(
    partition: TopicPartition, end: int, fetched: FetchedBatches
) -> Iterator[pa.RecordBatch]:
    """Yield whole batches of the log; one across two ranges belongs to the first."""
    data = memoryview(fetched.data)
    chosen = [
        (bytes(data[position : position + header.size_bytes]), header)
        for position, header in fetched.batches
        if fetched.first_offset <= header.base_offset < end
    ]
    if not chosen:
        return
    count = len(chosen)
    yield pa.RecordBatch.from_arrays(
        [
            binaries([raw for raw, _ in chosen]),
            pa.repeat(text(partition.topic), count),
            pa.repeat(integer(partition.partition, pa.int32()), count),
            integers([header.base_offset for _, header in chosen], pa.int64()),
            integers([header.last_offset for _, header in chosen], pa.int64()),
            integers([header.max_timestamp * 1000 for _, header in chosen], pa.int64()).cast(
                _BATCH_TYPES["timestamp"]
            ),
            integers([header.record_count for _, header in chosen], pa.int32()),
        ],
        schema=_BATCH_SCHEMA,
    )
