"""A table as record batches, each for one partition: whole columns at a time, no object per row.

The table goes through in slices, so that memory stays bounded however long it is. Within a slice
the rows of a partition keep their order. What a reader would get wrong: rows without a key and
without a partition may go anywhere, so they are not moved at all. Runs of them go to one partition
after the other.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.errors import InvalidPartitions, InvalidRecord, MessageTooLarge
from headwater.client.producer.partition_queues import PartitionQueue, TopicQueues
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_core import ProducerCore
from headwater.records.columns import encode_columns, partition_column
from headwater.records.header import HEADER_BYTES, read_header
from headwater.records.plain_values import integer

if TYPE_CHECKING:
    AnyArray = pa.Array[Any]
else:
    AnyArray = pa.Array

_COLUMNS = ("value", "key", "partition", "timestamp", "headers")
_SLICES_IN_MEMORY = 4
# Varints and attributes of a row: the most, and what is usual.
_ROW_OVERHEAD_MAX_BYTES = 36
_ROW_OVERHEAD_BYTES = 12


def table_batches(
    core: ProducerCore, topic: str, table: pa.Table | pa.RecordBatch
) -> Iterator[tuple[PartitionQueue, ProducerBatch]]:
    """The batches in which a table is sent. Raises before the first one what is wrong with it."""
    unknown = set(table.schema.names) - set(_COLUMNS)
    if unknown or len(set(table.schema.names)) < len(table.schema.names):
        raise InvalidRecord(f"a table has {', '.join(_COLUMNS)}, and not {table.schema.names}")
    queues = core.accumulator.topics[topic]
    _check_rows(core, table)
    for rows in _slices(table, core.settings.buffer_memory // _SLICES_IN_MEMORY):
        for partition, part in _by_partition(core, queues, rows):
            for encoded in encode_columns(
                part,
                codec=core.settings.codec,
                level=core.settings.codec_level,
                batch_bytes=_batch_bytes(core),
                default_timestamp=core.now_ms(),
                # The sender stamps the producer's id on it, and writes the checksum of that.
                writes_crc=False,
            ):
                yield queues.queues[partition], _batch(core, topic, partition, encoded)


def _batch_bytes(core: ProducerCore) -> int:
    settings = core.settings
    return min(
        settings.headwater_table_batch_bytes, settings.max_request_size, settings.buffer_memory
    )


def _batch(core: ProducerCore, topic: str, partition: int, encoded: memoryview) -> ProducerBatch:
    batch = ProducerBatch(
        topic,
        partition,
        builder=None,
        lock=core.accumulator.lock,
        created_ms=core.steady_ms(),
        reserved_bytes=len(encoded),
    )
    batch.adopt(encoded, read_header(encoded).record_count)
    return batch


def _check_rows(core: ProducerCore, table: pa.Table | pa.RecordBatch) -> None:
    limit_bytes = min(core.settings.max_request_size, core.settings.buffer_memory)
    # Only a table that is larger than one request can have a row that is.
    if table.nbytes + HEADER_BYTES <= limit_bytes:
        return
    largest_bytes = sum(
        _largest(table.column(name))
        for name in ("key", "value")
        if name in table.schema.names and not pa.types.is_null(table.schema.field(name).type)
    )
    if largest_bytes + HEADER_BYTES + _ROW_OVERHEAD_MAX_BYTES > limit_bytes:
        raise MessageTooLarge(f"a row of up to {largest_bytes} bytes; the limit is {limit_bytes}")


def _largest(column: object) -> int:
    lengths = pc.call_function("binary_length", [column])
    return int(pc.call_function("max", [lengths]).as_py() or 0)


def _slices(table: pa.Table | pa.RecordBatch, slice_bytes: int) -> Iterator[pa.RecordBatch]:
    """The table in whole Arrow batches of about that size."""
    count = max(1, -(-table.nbytes // max(slice_bytes, 1)))
    rows_each = max(1, -(-table.num_rows // count))
    for start in range(0, table.num_rows, rows_each):
        rows = table.slice(start, rows_each)
        if isinstance(rows, pa.RecordBatch):
            yield rows
        else:
            yield from rows.combine_chunks().to_batches()


def _by_partition(
    core: ProducerCore, queues: TopicQueues, rows: pa.RecordBatch
) -> Iterator[tuple[int, pa.RecordBatch]]:
    chosen = _partitions(core, queues, rows)
    names = [name for name in rows.schema.names if name != "partition"]
    content = rows.select(names)
    if chosen is None:
        yield from _runs(core, queues, content)
        return
    order = pc.sort_indices(chosen)
    runs = pc.call_function("run_end_encode", [chosen.take(order)])
    content = content.take(order)
    start = 0
    for partition, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield partition, content.slice(start, end - start)
        start = end


def _partitions(core: ProducerCore, queues: TopicQueues, rows: pa.RecordBatch) -> AnyArray | None:
    """The partition of every row; None where all are free to choose."""
    count = queues.choice_count
    names = rows.schema.names
    candidates: list[Any] = []
    if "partition" in names:
        given = rows.column("partition").cast(pa.int32())
        extremes = pc.call_function("min_max", [given]).as_py()
        if extremes["min"] is not None and not 0 <= extremes["min"] <= extremes["max"] < count:
            raise InvalidPartitions(f"{queues.name} has partitions 0 to {count - 1}: {extremes}")
        candidates.append(given)
    if "key" in names and not core.settings.partitioner_ignore_keys:
        candidates.append(partition_column(rows.column("key"), count))
    if not candidates or all(each.null_count == len(each) for each in candidates):
        return None
    if candidates[0].null_count:
        with core.accumulator.lock:
            sticky = queues.move_sticky()
        candidates.append(integer(sticky, pa.int32()))
        chosen: AnyArray = pc.coalesce(*candidates)
        return chosen
    first: AnyArray = candidates[0]
    return first


def _runs(
    core: ProducerCore, queues: TopicQueues, rows: pa.RecordBatch
) -> Iterator[tuple[int, pa.RecordBatch]]:
    encoded_bytes = rows.nbytes + rows.num_rows * _ROW_OVERHEAD_BYTES
    count = max(1, -(-encoded_bytes // _batch_bytes(core)))
    rows_each = max(1, -(-rows.num_rows // count))
    for start in range(0, rows.num_rows, rows_each):
        with core.accumulator.lock:
            partition = queues.move_sticky()
        yield partition, rows.slice(start, rows_each)
