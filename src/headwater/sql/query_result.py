"""The result of a query: rows that are read as they are used."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

import duckdb
import pyarrow as pa

from headwater.common.exceptions import HeadwaterError
from headwater.sql.query_progress import QueryProgress, QueryStatistics

if TYPE_CHECKING:
    from headwater.sql.topic_reader import PlannedScan

BATCH_ROWS: Final = 65_536


class QueryResult:
    """Rows of a query, once: as batches, Arrow, pandas, polars or tuples."""

    def __init__(
        self,
        progress: QueryProgress,
        translate: Callable[[BaseException], HeadwaterError],
        *,
        scans: "list[PlannedScan]",
    ) -> None:
        self.progress = progress
        self.scans = scans
        self._translate = translate
        self._reader: Any = None

    def start(self, execute: Callable[[], Any]) -> None:
        """Begin the query. `sql` of the session has done this."""
        self._reader = self._guarded(lambda: _reader_of(execute()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Rows as tuples."""
        for batch in self.batches():
            columns = [python_values(column) for column in batch.columns]
            yield from zip(*columns, strict=True)

    def close(self) -> None:
        """End the query, finished or not. Idempotent."""
        reader, self._reader = self._reader, None
        if reader is not None:
            self.progress.end_scans()
            reader.close()

    @property
    def schema(self) -> pa.Schema:
        found: pa.Schema = self._open().schema
        return found

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    @property
    def statistics(self) -> QueryStatistics:
        """What has been read so far."""
        return self.progress.statistics

    def warnings(self) -> list[str]:
        """What is unusual about the rows so far: records that do not fit their types."""
        counts = self.statistics
        lines = []
        if counts.misfit_count:
            shown = "; ".join(map(str, counts.misfits))
            subject = (
                "1 record does not fit its type and has"
                if counts.misfit_count == 1
                else f"{counts.misfit_count:,} records do not fit their types and have"
            )
            more = " ..." if counts.misfit_count > len(counts.misfits) else ""
            lines.append(f"{subject} null there: {shown}{more}")
        if counts.deleted_offsets:
            lines.append(f"{counts.deleted_offsets:,} offsets were deleted while the query ran")
        return lines

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as Arrow batches, in bounded memory."""
        reader = self._open()
        while True:
            batch = self._guarded(lambda: next(reader, None))
            if batch is None:
                return
            yield batch

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        schema = self.schema
        return pa.Table.from_batches(list(self.batches()), schema=schema)

    def pandas(self) -> Any:
        """All rows as a data frame of pandas; sums of integers as integers."""
        table = self.arrow()
        for index, each in enumerate(table.schema):
            if is_hugeint(each.type):
                # As decimals, they would be objects.
                with suppress(pa.ArrowInvalid):
                    column = table.column(index).cast(pa.int64())
                    table = table.set_column(index, each.name, column)
        return table.to_pandas()

    def polars(self) -> Any:
        """All rows as a data frame of polars."""
        import polars

        return polars.from_arrow(self.arrow())

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """All rows as tuples."""
        return list(self)

    def _open(self) -> Any:
        if self._reader is None:
            raise self._translate(HeadwaterError("the result is closed: another query has run"))
        return self._reader

    def _guarded(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except (HeadwaterError, KeyboardInterrupt):
            self.progress.cancel()
            raise
        except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
            self.progress.check()
            raise self._translate(error) from None


def is_hugeint(kind: pa.DataType) -> bool:
    """Whether a type is that of DuckDB's 128-bit integers, such as sums."""
    return pa.types.is_decimal128(kind) and (kind.precision, kind.scale) == (38, 0)


def python_values(column: Any) -> list[Any]:
    """Values of a column; 128-bit integers as int."""
    values: list[Any] = column.to_pylist()
    if is_hugeint(column.type):
        return [None if each is None else int(each) for each in values]
    return values


def _reader_of(relation: Any) -> Any:
    if relation is not None:
        return relation.to_arrow_reader(BATCH_ROWS)
    return pa.RecordBatchReader.from_batches(pa.schema([]), [])
