"""Read Iceberg tables into frames: as a stream of what is appended, or as a whole.

A stream starts with all rows of the current snapshot and continues with the rows that later ones
append. A snapshot that overwrote or deleted rows fails the query, unless an option allows skipping
it. Snapshots of a compaction ("replace") do not change rows and are skipped.
"""

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from headwater.pipelines.spec.pipeline_spec import SourceSpec
from headwater.pipelines.tables.iceberg_sink import arrow_schema
from headwater.pipelines.tables.iceberg_table import COMPACTED, IcebergTable
from headwater.spark.exceptions import DataLost, InvalidOption

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = "headwater-iceberg"
SKIP_OVERWRITES: Final = "streaming-skip-overwrite-snapshots"
SKIP_DELETES: Final = "streaming-skip-delete-snapshots"
SNAPSHOT_ID: Final = "snapshot-id"
_TABLE: Final = "headwater.table"
_CATALOG: Final = "headwater.catalog"


def iceberg_frame(spark: "SparkSession", source: SourceSpec) -> "DataFrame":
    """Return the frame of a source; `static` reads the current snapshot."""
    spark.dataSource.register(IcebergSource)
    table = IcebergTable.of(source.table)
    options = {
        **source.options,
        _TABLE: table.name,
        _CATALOG: json.dumps(dict(table.catalog)),
    }
    reader = spark.read if source.is_static else spark.readStream
    return reader.format(FORMAT).options(**options).load()


class IcebergSource(DataSource):
    """A PyIceberg table as a Spark data source."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        found: StructType = from_arrow_schema(_table(self.options).load().schema().as_arrow())
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        return _TableReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _TableStream(self.options, schema)


@dataclass
class _Piece(InputPartition):
    """A data file with its delete files, as planned by PyIceberg."""

    metadata: str
    properties: dict[str, Any]
    task: bytes


class _TableReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = dict(options)
        self._schema = arrow_schema(schema)

    def partitions(self) -> Sequence[_Piece]:
        table = _table(self._options).load()
        named = self._options.get(SNAPSHOT_ID)
        if named is None and table.current_snapshot() is None:
            return []
        scan = table.scan(snapshot_id=None if named is None else int(named))
        return _pieces(table, scan.plan_files())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Piece)
        return _rows(partition, self._schema)


class _TableStream(DataSourceStreamReader):
    """Offsets are ids of snapshots, null before the first one."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = dict(options)
        self._schema = arrow_schema(schema)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"snapshot": None}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        current = _table(self._options).load().current_snapshot()
        return {"snapshot": None if current is None else current.snapshot_id}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[_Piece]:
        first, last = start["snapshot"], end["snapshot"]
        if last is None or first == last:
            return []
        table = _table(self._options).load()
        if first is None:
            return _pieces(table, table.scan(snapshot_id=last).plan_files())
        self._refuse_changes(table, first, last)
        scan = table.incremental_append_scan(
            from_snapshot_id_exclusive=first, to_snapshot_id_inclusive=last
        )
        return _pieces(table, scan.plan_files())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Piece)
        return _rows(partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint has the offsets."""

    def stop(self) -> None:
        """Do nothing: no resources are held."""

    def _refuse_changes(self, table: "Table", first: int, last: int) -> None:
        at: int | None = last
        while at != first:
            snapshot = None if at is None else table.snapshot_by_id(at)
            if snapshot is None:
                raise DataLost(
                    f"snapshot {first} of {table.name()} is not a parent of {last} any more: it "
                    "has expired, or the table was rolled back"
                )
            operation = "append" if snapshot.summary is None else snapshot.summary.operation.value
            is_change = snapshot.summary is None or COMPACTED not in snapshot.summary
            option = {"overwrite": SKIP_OVERWRITES, "delete": SKIP_DELETES}.get(operation)
            if is_change and option is not None and self._options.get(option, "").lower() != "true":
                raise InvalidOption(
                    f"snapshot {at} is of type {operation}, which cannot be read as a stream of "
                    f"rows: set {option}: true to leave it out"
                )
            at = snapshot.parent_snapshot_id


def _table(options: Mapping[str, str]) -> IcebergTable:
    return IcebergTable(name=options[_TABLE], catalog=json.loads(options[_CATALOG]))


def _pieces(table: "Table", tasks: "Iterator[FileScanTask] | Any") -> list[_Piece]:
    metadata, properties = table.metadata.model_dump_json(), dict(table.io.properties)
    return [
        _Piece(metadata=metadata, properties=properties, task=pickle.dumps(task)) for task in tasks
    ]


def _rows(piece: _Piece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io import load_file_io
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table.metadata import TableMetadataUtil

    metadata = TableMetadataUtil.parse_obj(json.loads(piece.metadata))
    files = load_file_io(piece.properties, metadata.location)
    scan = ArrowScan(metadata, files, metadata.schema(), AlwaysTrue())
    for batch in scan.to_record_batches([pickle.loads(piece.task)]):
        # Columns that were added after the query started are left out.
        found = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
        yield from found.to_batches()
