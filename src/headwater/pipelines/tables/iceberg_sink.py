"""Write the batches of a stream to an Iceberg table, exactly once.

Tasks write the data files where they run, in pieces of bounded size; the driver gets the
descriptions of these files and commits them as one snapshot. Executors need PyIceberg.
"""

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as f

from headwater.pipelines.spec.pipeline_spec import MergeSpec, SinkSpec
from headwater.pipelines.tables.iceberg_table import (
    BatchOfQuery,
    IcebergTable,
    is_committed,
    writer_of,
)
from headwater.pipelines.tables.merged_changes import (
    DELETED,
    check_merge,
    last_changes,
    table_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

# Arrow rows that a task buffers before it writes them; they take several times this memory.
_PIECE_BYTES: Final = 64 << 20
_FILE: Final = 0
_KEYS: Final = 1

QueryId = Callable[["DataFrame"], str]


def iceberg_writer(frame: "DataFrame", sink: SinkSpec, query_id: QueryId) -> "DataStreamWriter":
    """Return a writer of a stream to the sink's table; creates a missing table."""
    merge = sink.table.merge
    if merge is not None:
        check_merge(frame, merge)
    columns = table_columns(frame, merge)
    target = IcebergTable.of(sink.table)
    schema = arrow_schema(frame.select(*(f"`{name}`" for name in columns)).schema)
    target.prepare(schema, sink.table.partition_by, schema_evolution=sink.table.schema_evolution)

    def write(rows: "DataFrame", batch_id: int) -> None:
        batch = BatchOfQuery(query_id=query_id(rows), batch_id=batch_id)
        table = target.load()
        if is_committed(table, batch):
            return
        changes = (
            last_changes(rows, merge)
            if merge is not None
            else rows.select(*(f"`{name}`" for name in columns), f.lit(False).alias(DELETED))
        )
        task = _FilesOfTask(writer_of(table), schema, merge)
        found = changes.mapInArrow(task, "kind int, payload binary").collect()
        files = [pickle.loads(each.payload) for each in found if each.kind == _FILE]
        keys = [_table_in(each.payload) for each in found if each.kind == _KEYS]
        if files or keys:
            target.commit(batch, files, keys=pa.concat_tables(keys) if keys else None)

    return frame.writeStream.foreachBatch(write)


def arrow_schema(schema: "StructType") -> pa.Schema:
    """Return the columns in Iceberg's types: nullable, and times in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    found: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([pa.field(each.name, each.type, nullable=True) for each in found])


class _FilesOfTask:
    """Writes the rows of a task to files and returns their descriptions to the driver."""

    def __init__(
        self,
        write: "Callable[[pa.Table], list[Any]]",
        schema: pa.Schema,
        merge: MergeSpec | None,
    ) -> None:
        self._write = write
        self._schema = schema
        self._merge = merge

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in batches:
            held.append(batch)
            size_bytes += batch.nbytes
            if size_bytes >= _PIECE_BYTES:
                yield self._piece(held)
                held, size_bytes = [], 0
        if held:
            yield self._piece(held)

    def _piece(self, held: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.Table.from_batches(held)
        kinds, payloads = [], []
        if self._merge is not None:
            kinds.append(_KEYS)
            payloads.append(_bytes_of(self._typed(rows).select(list(self._merge.keys))))
            rows = rows.filter(pa.compute.invert(rows[DELETED]))
        if len(rows):
            for file in self._write(self._typed(rows)):
                kinds.append(_FILE)
                payloads.append(pickle.dumps(file))
        return pa.record_batch(
            [pa.array(kinds, pa.int32()), pa.array(payloads, pa.binary())], ["kind", "payload"]
        )

    def _typed(self, rows: pa.Table) -> pa.Table:
        return rows.select(self._schema.names).cast(self._schema)


def _bytes_of(table: pa.Table) -> bytes:
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, table.schema) as stream:
        stream.write_table(table)
    return buffer.getvalue().to_pybytes()


def _table_in(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()
