"""`format("headwater-connect")`: every connector as a Spark source or sink.

    spark.readStream.format("headwater-connect").option("connector", "files").option("path", ...)

Note: Spark creates data sources in separate Python processes, and pickles readers and writers to
its workers. So they hold names and options, and open the connector where they run.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from headwater.connect.connector import Position, Sink, Source, Split
from headwater.connect.connector_registry import open_sink, open_source
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.arrow_types import arrow_schema
from headwater.spark.sink.exactly_once import BatchIdentity

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Options of Spark and of this data source; all others belong to the connector.
_COMMON: Final = frozenset({"connector", "checkpointlocation", "queryname", "queryid", "batchid"})
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A connector's name and options."""

    name: str
    options: Mapping[str, str]

    def source(self) -> Source:
        return open_source(self.name, self.options)

    def sink(self) -> Sink:
        return open_sink(self.name, self.options)


class ConnectSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater-connect"

    def schema(self) -> "StructType":
        return from_arrow_schema(self._chosen().source().schema())

    def reader(self, schema: "StructType") -> DataSourceReader:
        return ConnectReader(self._chosen(), arrow_schema(schema))

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802
        return ConnectStreamReader(self._chosen(), arrow_schema(schema))

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise InvalidOption("a connector cannot overwrite: use mode append")
        query_id = self.options.get("queryid") or str(uuid.uuid4())
        batch_id = int(self.options.get("batchid") or 0)
        chosen = self._chosen()
        chosen.sink().prepare(arrow_schema(schema))
        return ConnectWriter(chosen, query_id, batch_id)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        chosen = self._chosen()
        chosen.sink().prepare(arrow_schema(schema))
        return ConnectStreamWriter(chosen)

    def _chosen(self) -> Chosen:
        name = self.options.get("connector")
        if name is None:
            raise InvalidOption("the option connector is missing")
        rest = {key: text for key, text in self.options.items() if key not in _COMMON}
        return Chosen(name, rest)


class SplitPartition(InputPartition):
    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class ConnectReader(DataSourceReader):
    """Reader of a batch query: everything that is there."""

    def __init__(self, chosen: Chosen, schema: pa.Schema) -> None:
        self._chosen = chosen
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        source = self._chosen.source()
        found: list[InputPartition] = []
        start: Position = {}
        while (end := source.latest(start)) != start:
            found += [SplitPartition(each) for each in source.splits(start, end)]
            start = end
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition)
        return _rows(self._chosen.source().read(partition.split), self._schema)


class ConnectStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a stream, batch after batch."""

    def __init__(self, chosen: Chosen, schema: pa.Schema) -> None:
        self._chosen = chosen
        self._schema = schema
        self._source: Source | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, ARG002
        source = self._open_source()
        # Spark plans a batch when the one before it is committed. Its own call of `commit` comes
        # later, and not at all for the last batch.
        source.commit(start)
        return _ordered(source.latest(start))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Not supported by connectors."""
        return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: sources report what is there, and read rows added meanwhile."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [SplitPartition(each) for each in self._open_source().splits(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition)
        return _rows(self._chosen.source().read(partition.split), self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """See `latestOffset`."""

    def stop(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None

    def _open_source(self) -> Source:
        if self._source is None:
            self._source = self._chosen.source()
        return self._source

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}


@dataclass
class RowsWritten(WriterCommitMessage):
    """Result of a task."""

    partition: int
    rows: int


class ConnectWriter(DataSourceArrowWriter):
    """Writer of a batch query."""

    def __init__(self, chosen: Chosen, query_id: str, batch_id: int) -> None:
        self._chosen = chosen
        self._query_id = query_id
        self._batch_id = batch_id

    # PySpark's own Arrow writer classes also narrow the type of their base.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        partition = _context().partitionId()
        part = BatchIdentity(query_id=self._query_id, batch_id=self._batch_id, partition=partition)
        return RowsWritten(partition, self._chosen.sink().write(part, iterator))


class ConnectStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen

    # PySpark's own Arrow writer classes also narrow the type of their base.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        context = _context()
        query_id, batch_id = (
            context.getLocalProperty(_QUERY_ID),
            context.getLocalProperty(_BATCH_ID),
        )
        if query_id is None or batch_id is None:
            raise InvalidOption("Spark does not provide the query and batch id")
        part = BatchIdentity(
            query_id=query_id, batch_id=int(batch_id), partition=context.partitionId()
        )
        return RowsWritten(part.partition, self._chosen.sink().write(part, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Tasks have committed their rows themselves."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Parts that tasks have committed are recognized when the batch is repeated."""


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only called in Spark workers"
    return context


def _ordered(position: Position) -> Position:
    """Sort keys: Spark compares positions as text."""
    found: Position = json.loads(json.dumps(position, sort_keys=True))
    return found


def _rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert to exactly the declared columns: Spark checks only the first batch."""
    for batch in batches:
        columns = [batch.column(each.name).cast(each.type) for each in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
