"""Write the batches of a stream to a Delta table, exactly once.

Appends use Delta's own streaming sink, which stores query and batch id in the commit. For a merge,
Delta stores the application and version that the session sets (`txnAppId`, `txnVersion`) in the
same way, and skips a repeated one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headwater.pipelines.spec.pipeline_spec import MergeSpec, SinkSpec
from headwater.pipelines.tables.merged_changes import (
    DELETED,
    check_merge,
    last_changes,
    table_columns,
)
from headwater.spark.exceptions import WrongColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_APPLICATION: Final = "spark.databricks.delta.write.txnAppId"
_VERSION: Final = "spark.databricks.delta.write.txnVersion"
_CHANGES: Final = "headwater_changes"

QueryId = Callable[["DataFrame"], str]


def delta_writer(frame: "DataFrame", sink: SinkSpec, query_id: QueryId) -> "DataStreamWriter":
    """Return a stream writer; the first batch creates the table."""
    merge = sink.table.merge
    if merge is not None:
        check_merge(frame, merge)
        return frame.writeStream.foreachBatch(_merger(sink, merge, query_id))
    columns = table_columns(frame, None)
    known = _known_columns(frame.sparkSession, sink)
    if known is not None and not sink.table.schema_evolution:
        _refuse_new([name for name in columns if name.lower() not in known])
    writer = (
        frame.select(*(f"`{name}`" for name in columns))
        .writeStream.format("delta")
        .options(**sink.options)
    )
    if sink.table.schema_evolution:
        writer = writer.option("mergeSchema", "true")
    return writer


def _merger(
    sink: SinkSpec, merge: MergeSpec, query_id: QueryId
) -> "Callable[[DataFrame, int], None]":
    def write(rows: "DataFrame", batch_id: int) -> None:
        spark = rows.sparkSession
        changes = last_changes(rows, merge)
        target = target_of(sink)
        _prepare(spark, changes, sink, target)
        changes.createOrReplaceTempView(_CHANGES)
        with _once(spark, query_id(rows), batch_id):
            spark.sql(merge_statement(target, table_columns(rows, merge), merge.keys))

    return write


def target_of(sink: SinkSpec) -> str:
    """Return the table's name in SQL."""
    if sink.table.name is not None:
        return ".".join(f"`{each}`" for each in sink.table.name.split("."))
    return f"delta.`{sink.options['path']}`"


def merge_statement(target: str, columns: list[str], keys: tuple[str, ...]) -> str:
    """Build the MERGE; columns that only the table has keep their values."""
    on = " AND ".join(f"t.`{key}` <=> s.`{key}`" for key in keys)
    updates = ", ".join(f"t.`{name}` = s.`{name}`" for name in columns)
    names = ", ".join(f"`{name}`" for name in columns)
    values = ", ".join(f"s.`{name}`" for name in columns)
    return (
        f"MERGE INTO {target} t USING {_CHANGES} s ON {on} "
        f"WHEN MATCHED AND s.{DELETED} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({names}) VALUES ({values})"
    )


def _prepare(spark: "SparkSession", changes: "DataFrame", sink: SinkSpec, target: str) -> None:
    """Create the table, and with schema evolution its new columns."""
    kinds = {name: kind for name, kind in changes.dtypes if name != DELETED}
    columns = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    parts = ", ".join(f"`{each.column}`" for each in sink.table.partition_by)
    by = f" PARTITIONED BY ({parts})" if parts else ""
    spark.sql(f"CREATE TABLE IF NOT EXISTS {target} ({columns}) USING delta{by}")
    known = {each.lower() for each in spark.sql(f"SELECT * FROM {target} LIMIT 0").columns}
    new = [name for name in kinds if name.lower() not in known]
    if not sink.table.schema_evolution:
        _refuse_new(new)
    if not new:
        return
    added = ", ".join(f"`{name}` {kinds[name]}" for name in new)
    spark.sql(f"ALTER TABLE {target} ADD COLUMNS ({added})")


def _known_columns(spark: "SparkSession", sink: SinkSpec) -> set[str] | None:
    """Return the table's columns in lower case; None if it does not exist."""
    from pyspark.errors import AnalysisException

    try:
        return {each.lower() for each in spark.sql(f"SELECT * FROM {target_of(sink)}").columns}
    except AnalysisException:
        return None


def _refuse_new(columns: list[str]) -> None:
    if columns:
        raise WrongColumns(
            f"the table has no column {', '.join(columns)}: set schema_evolution: true to add it"
        )


@contextmanager
def _once(spark: "SparkSession", query_id: str, batch_id: int) -> Iterator[None]:
    """Set the options with which Delta skips a batch that it has already committed."""
    spark.conf.set(_APPLICATION, query_id)
    spark.conf.set(_VERSION, str(batch_id))
    try:
        yield
    finally:
        spark.conf.unset(_APPLICATION)
        spark.conf.unset(_VERSION)
