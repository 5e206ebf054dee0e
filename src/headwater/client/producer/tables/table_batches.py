"""Encode a table as record batches per partition: columns, no object per row.

The table is processed in slices, so that memory is bounded. Within a slice the rows of a partition
keep their order.

Note: rows with neither key nor partition are not sorted by partition. Their batches go to one
partition after the other.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.errors import InvalidPartitions, InvalidRecord, MessageTooLarge
from headwater.client.producer.partition_queues import PlacedBatch, TopicQueues
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_core import ProducerCore
from headwater.records.arrow_columns import encode_columns, partition_column
from headwater.records.arrow_values import integer
from headwater.records.batch_header import HEADER_BYTES, Codec, read_header

if TYPE_CHECKING:
    AnyArray = pa.Array[Any]
else:
    AnyArray = pa.Array

_COLUMNS = ("value", "key", "partition", "timestamp", "headers")
# One share of the memory can be sent while the next one is encoded.
_SHARES_OF_MEMORY = 4
# Upper bound for varints and attributes of a row.
_ROW_OVERHEAD_MAX_BYTES = 36


def table_batches(
    core: ProducerCore, topic: str, table: pa.Table | pa.RecordBatch
) -> Iterator[list[PlacedBatch]]:
    """The batches of a table, in groups that are added together.

    Raises errors of the table before the first group.
    """
    unknown = set(table.schema.names) - set(_COLUMNS)
    if unknown or len(set(table.schema.names)) < len(table.schema.names):
        raise InvalidRecord(
            f"a table may have the columns {', '.join(_COLUMNS)}, not {table.schema.names}"
        )
    queues = core.accumulator.topics[topic]
    _check_rows(core, table)
    share_bytes = core.settings.buffer_memory // _SHARES_OF_MEMORY
    for rows in _slices(table, share_bytes):
        for partition, part in _by_partition(core, queues, rows):
            encoded = encode_columns(
                part,
                codec=core.settings.codec,
                level=core.settings.codec_level,
                batch_bytes=_batch_bytes(core),
                default_timestamp=core.now_ms(),
                # The sender writes the producer id later and needs the CRC of the records.
                crc_from=HEADER_BYTES,
            )
            for group in _groups(encoded, share_bytes):
                yield [_placed(core, queues, partition, batch) for batch in group]


def _groups(batches: list[memoryview], limit_bytes: int) -> Iterator[list[memoryview]]:
    """Group batches up to a size, to wait for memory together."""
    group: list[memoryview] = []
    size_bytes = 0
    for batch in batches:
        if group and size_bytes + len(batch) > limit_bytes:
            yield group
            group, size_bytes = [], 0
        group.append(batch)
        size_bytes += len(batch)
    if group:
        yield group


def _batch_bytes(core: ProducerCore) -> int:
    settings = core.settings
    return min(
        settings.headwater_table_batch_bytes, settings.max_request_size, settings.buffer_memory
    )


def _placed(
    core: ProducerCore, queues: TopicQueues, partition: int | None, encoded: memoryview
) -> PlacedBatch:
    """Prepare a batch for the accumulator, with the queue of its partition."""
    if partition is None:
        with core.accumulator.lock:
            partition = queues.move_sticky()
    batch = ProducerBatch(
        queues.name,
        partition,
        builder=None,
        lock=core.accumulator.lock,
        created_ms=core.steady_ms(),
        reserved_bytes=len(encoded),
    )
    header = read_header(encoded)
    is_plain = core.settings.codec is Codec.NONE
    batch.adopt(encoded, header.record_count, records_crc=header.crc if is_plain else None)
    return queues.queues[partition], batch


def _check_rows(core: ProducerCore, table: pa.Table | pa.RecordBatch) -> None:
    limit_bytes = min(core.settings.max_request_size, core.settings.buffer_memory)
    # Only a table larger than one request can have such a row.
    if table.nbytes + HEADER_BYTES <= limit_bytes:
        return
    largest_bytes = sum(
        _largest(table.column(name))
        for name in ("key", "value")
        if name in table.schema.names and not pa.types.is_null(table.schema.field(name).type)
    )
    if largest_bytes + HEADER_BYTES + _ROW_OVERHEAD_MAX_BYTES > limit_bytes:
        raise MessageTooLarge(
            f"the table has rows of up to {largest_bytes} bytes; the limit is {limit_bytes}"
        )


def _largest(column: object) -> int:
    lengths = pc.call_function("binary_length", [column])
    return int(pc.call_function("max", [lengths]).as_py() or 0)


def _slices(table: pa.Table | pa.RecordBatch, slice_bytes: int) -> Iterator[pa.RecordBatch]:
    """Slice the table into Arrow batches of about this size."""
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
) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """The rows of each partition; None for rows that may go to any partition."""
    chosen = _partitions(core, queues, rows)
    names = [name for name in rows.schema.names if name != "partition"]
    content = rows.select(names)
    if chosen is None:
        yield None, content
        return
    order = pc.sort_indices(chosen)
    runs = pc.call_function("run_end_encode", [chosen.take(order)])
    content = content.take(order)
    start = 0
    for partition, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield partition, content.slice(start, end - start)
        start = end


def _partitions(core: ProducerCore, queues: TopicQueues, rows: pa.RecordBatch) -> AnyArray | None:
    """The partition of every row; None if all may go to any partition."""
    count = queues.choice_count
    names = rows.schema.names
    candidates: list[Any] = []
    if "partition" in names:
        given = rows.column("partition").cast(pa.int32())
        extremes = pc.call_function("min_max", [given]).as_py()
        if extremes["min"] is not None and not 0 <= extremes["min"] <= extremes["max"] < count:
            raise InvalidPartitions(
                f"{queues.name} has partitions 0 to {count - 1}, not {extremes['min']} to "
                f"{extremes['max']}"
            )
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
