"""Build Arrow tables from fetched rows, without an object per record.

Note: rows may have been decoded before views were requested. Their values become views of the
column that they were copied into.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from headwater.client.consumer.fetch.completed_fetch import Rows
from headwater.records.arrow_columns import HEADER_TYPE, adopt_columns
from headwater.records.arrow_values import integer, text

_COLUMN_TYPES: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(HEADER_TYPE),
}
SCHEMA: Final = pa.schema(_COLUMN_TYPES)
"""The schema of `poll_table`. `Producer.send_table` accepts it, except for topic and offset."""
VIEWS_SCHEMA: Final = pa.schema({**_COLUMN_TYPES, "value": pa.binary_view()})
"""The same with values as views of the receive buffer."""


def table_of(taken: Sequence[Rows], *, views: bool = False) -> pa.Table:
    """One table with all rows in order; one chunk per run of batches, not copied."""
    schema = VIEWS_SCHEMA if views else SCHEMA
    return pa.Table.from_batches([_batch(rows, schema) for rows in taken], schema)


def _batch(rows: Rows, schema: pa.Schema) -> pa.RecordBatch:
    count = rows.stop - rows.start
    columns = adopt_columns(rows.columns).slice(rows.start, count)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(text(rows.partition.topic), count),
            pa.repeat(integer(rows.partition.partition, pa.int32()), count),
            columns.column("offset"),
            columns.column("timestamp").view(SCHEMA.field("timestamp").type),
            columns.column("key"),
            columns.column("value").cast(schema.field("value").type),
            columns.column("headers"),
        ],
        schema=schema,
    )
