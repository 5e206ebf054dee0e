"""Start the streaming query of a sink, with its trigger and checkpoint.

Connectors write their batches in `foreachBatch` and get the same batch again after a crash. They
get the query id and the batch id, so that they can write exactly once.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.pipelines.check.connector_port import Connectors, SinkBatch
from headwater.pipelines.check.topic_options import topic_options
from headwater.pipelines.run.avro_options import sink_avro
from headwater.pipelines.run.sink_records import as_records, transformed_records
from headwater.pipelines.spec.pipeline_spec import (
    HEADWATER,
    PipelineSpec,
    SinkSpec,
    TableSpec,
)
from headwater.pipelines.spec.spark_formats import DELTA, ICEBERG
from headwater.pipelines.tables.delta_sink import delta_writer
from headwater.spark.exceptions import InvalidOption
from headwater.spark.locations import below
from headwater.spark.sink.write_stream import topic_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_QUERY_ID: Final = "sql.streaming.queryId"


def start_sink(
    frame: "DataFrame", sink: SinkSpec, spec: PipelineSpec, connectors: Connectors
) -> "StreamingQuery":
    """Start a sink's query; it runs until it is stopped or its trigger ends."""
    if not frame.isStreaming:
        raise InvalidOption(
            f"{sink.source} is a table, not a stream: join a stream with it and write the result"
        )
    if sink.connector is not None:
        connector = connectors.sink(sink.connector)

        def write(rows: "DataFrame", batch_id: int) -> None:
            batch = SinkBatch(query_id=query_id_of(rows), batch_id=batch_id)
            connector.write(rows, sink.options, batch)

        writer = frame.writeStream.foreachBatch(write)
    elif sink.format.lower() == DELTA:
        writer = delta_writer(in_files(frame, sink.table), sink, query_id_of)
    elif sink.format.lower() == ICEBERG:
        from headwater.pipelines.tables.iceberg_sink import iceberg_writer

        writer = iceberg_writer(in_files(frame, sink.table), sink, query_id_of)
    elif sink.format != HEADWATER:
        rows = in_files(frame, sink.table)
        writer = rows.writeStream.format(sink.format).options(**sink.options)
    else:
        options = topic_options(spec, {**sink.options, **sink_avro(sink, spec)})
        typed = () if sink.encoding is None else sink.encoding.parts
        if sink.transforms:
            records, options = transformed_records(frame, sink, typed, options)
        else:
            records = as_records(frame, sink.record, typed)
        writer = topic_writer(records, options, sink.mode.value)
    return _start(writer, sink, spec)


def query_id_of(rows: "DataFrame") -> str:
    """Return the query id, a local property of the thread that runs `foreachBatch`."""
    query_id = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if query_id is None:
        raise InvalidOption("Spark did not provide the query id of a batch")
    return query_id


def checkpoint_of(spec: PipelineSpec, name: str) -> str:
    return below(spec.checkpoint, spec.name, name)


def _start(writer: "DataStreamWriter", sink: SinkSpec, spec: PipelineSpec) -> "StreamingQuery":
    chosen = writer.outputMode(sink.mode.value).queryName(f"{spec.name}-{sink.name}")
    chosen = chosen.option("checkpointLocation", checkpoint_of(spec, sink.name))
    if sink.table.partition_by and sink.format.lower() != ICEBERG and sink.table.merge is None:
        chosen = chosen.partitionBy(*(each.column for each in sink.table.partition_by))
    every_ms = sink.trigger.every_ms
    timing: dict[str, Any] = (
        {"availableNow": True}
        if every_ms is None
        else {"processingTime": f"{every_ms} milliseconds"}
    )
    chosen = chosen.trigger(**timing)
    is_spark_table = sink.table.name is not None and sink.format.lower() != ICEBERG
    if is_spark_table and sink.table.merge is None:
        assert sink.table.name is not None
        return chosen.toTable(sink.table.name)
    return chosen.start()


def in_files(frame: "DataFrame", table: TableSpec) -> "DataFrame":
    """Reduce the number of tasks that write a batch, and so the number of files.

    Rows of one table partition go to one task, so that the batch adds one file to it instead of
    one from every task.
    """
    if table.files is None:
        return frame
    if table.partition_by:
        columns = dict.fromkeys(each.column for each in table.partition_by)
        return frame.repartition(table.files, *columns)
    return frame.coalesce(table.files)
