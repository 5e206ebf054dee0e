"""Plan and start the reading of topics for one query."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset

from headwater.client.consumer.auto_offset_reset import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from headwater.common.ids import TopicPartition
from headwater.sql.query_progress import QueryProgress
from headwater.sql.scan_predicates import (
    RecordBounds,
    Term,
    fields_of,
    read_expression,
    record_bounds,
)
from headwater.sql.topic_scan import PartitionRange, ReaderPool, TopicScan
from headwater.sql.topic_table import (
    RECORD_COLUMNS,
    TableRows,
    TableView,
    TopicTable,
    rows_maker,
)

_NO_TIMESTAMP_OFFSET: Final = -1
_Dataset: Any = pyarrow.dataset.Dataset

# Whether timestamps of a topic ascend with offsets, except for records that are late by so many
# milliseconds; None if they may be in any order.
LatenessOf = Callable[[str], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """What one reading of a topic was asked for."""

    table: str
    partitions: int
    # All offsets there are, at the time of the plan.
    offsets: int
    ranges: tuple[PartitionRange, ...]
    columns: tuple[str, ...]
    predicate: str | None

    @property
    def planned_offsets(self) -> int:
        return sum(each.end - each.start for each in self.ranges)


@dataclass(slots=True, kw_only=True)
class QueryReading:
    """The topics that one query reads: their offsets are those of its first look."""

    readers: ReaderPool
    lateness_of: LatenessOf
    partition_counts: Mapping[str, int]
    # Only these offsets of a topic; the query is repeated for others, see `follow`.
    windows: Mapping[str, tuple[PartitionRange, ...]] = field(default_factory=dict)
    # Plan without reading.
    is_dry: bool = False
    progress: QueryProgress = field(default_factory=QueryProgress)
    scans: list[PlannedScan] = field(default_factory=list)
    _spans: dict[str, tuple[PartitionRange, ...]] = field(default_factory=dict)

    def span(self, topic: str) -> tuple[PartitionRange, ...]:
        """All offsets of a topic at the first call."""
        if topic in self.windows:
            return self.windows[topic]
        if topic not in self._spans:
            self._spans[topic] = topic_span(self.readers, topic, self.partition_counts[topic])
        return self._spans[topic]

    def open(
        self, table: TopicTable, view: TableView, names: Sequence[str], predicate: Any
    ) -> Iterator[pa.RecordBatch]:
        """Read what a predicate can match, and return the rows that it matches."""
        self.progress.check()
        schema = table.schema(view)
        term = read_expression(predicate) if _has_plain_names(schema) else None
        ranges = self._ranges(table.topic, term)
        span = self.span(table.topic)
        self.scans.append(
            PlannedScan(
                table=table.topic + view.value,
                partitions=len(span),
                offsets=sum(each.end - each.start for each in span),
                ranges=tuple(ranges),
                columns=tuple(names),
                predicate=None if predicate is None else str(predicate),
            )
        )
        if self.is_dry:
            return iter(())
        self.progress.planned(self.scans[-1].planned_offsets)
        to_rows = _Rows(table, view, names, predicate, term)
        return TopicScan(self.readers, ranges, to_rows, self.progress).batches()

    def _ranges(self, topic: str, term: Term | None) -> list[PartitionRange]:
        bounds = {
            each.partition: (each, record_bounds(term, each.partition.partition))
            for each in self.span(topic)
        }
        chosen = {place: both for place, both in bounds.items() if not both[1].is_empty}
        firsts, ends = self._time_offsets(topic, {p: both[1] for p, both in chosen.items()})
        found = []
        for place, (span, bound) in chosen.items():
            first = max(span.start, firsts.get(place, span.start))
            end = min(span.end, ends.get(place, span.end))
            found += [
                PartitionRange(partition=place, start=start, end=stop)
                for start, stop in bound.within(first, end)
            ]
        return found

    def _time_offsets(
        self, topic: str, bounds: Mapping[TopicPartition, RecordBounds]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Offsets before and from which no timestamp is within the bounds.

        Note: ListOffsets returns the first record at or after a time. Earlier records are older,
        so that the lower bound is exact in any order; later ones may be older, too.
        """
        firsts = self._first_at(
            {place: each.first_ms for place, each in bounds.items() if each.has_first_ms}
        )
        if not any(each.has_end_ms for each in bounds.values()):
            return firsts, {}
        lateness_ms = self.lateness_of(topic)
        if lateness_ms is None:
            return firsts, {}
        ends = self._first_at(
            {place: each.end_ms + lateness_ms for place, each in bounds.items() if each.has_end_ms}
        )
        return firsts, ends

    def _first_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset at or after a time; beyond all offsets if there is none."""
        wanted = {place: time for place, time in times.items() if time > 0}
        if not wanted:
            return {}
        with self.readers.lent() as reader:
            found = reader.offsets(wanted)
        return {
            place: 2**63 if each.offset == _NO_TIMESTAMP_OFFSET else each.offset
            for place, each in found.items()
        }


def topic_span(readers: ReaderPool, topic: str, partitions: int) -> tuple[PartitionRange, ...]:
    """The first and the last stable offset of each partition."""
    places = [TopicPartition(topic, number) for number in range(partitions)]
    with readers.lent() as reader:
        ends = reader.offsets(dict.fromkeys(places, LATEST_TIMESTAMP))
        begins = reader.offsets(dict.fromkeys(places, EARLIEST_TIMESTAMP))
    return tuple(
        PartitionRange(
            partition=place,
            start=min(begins[place].offset, ends[place].offset),
            end=ends[place].offset,
        )
        for place in places
    )


class _Rows:
    """Decodes records, filters them and selects columns."""

    def __init__(
        self,
        table: TopicTable,
        view: TableView,
        names: Sequence[str],
        predicate: Any,
        term: Term | None,
    ) -> None:
        self._table = table
        self._view = view
        self._names = list(names)
        self._predicate = predicate
        used = fields_of(term) if term is not None else frozenset(table.schema(view).names)
        # A predicate on records is applied before values are decoded.
        self._is_early = predicate is not None and used <= frozenset(RECORD_COLUMNS)
        extra = [] if predicate is None or self._is_early else sorted(used - {*names})
        self._read_names = [*self._names, *extra]

    def __call__(self, partition: TopicPartition, records: pa.RecordBatch) -> TableRows:
        number = partition.partition
        if self._is_early:
            records = self._early(number, records)
        rows = rows_maker(self._table, self._view, self._read_names, number)(records)
        if self._predicate is None or self._is_early:
            return rows
        whole: Any = pa.Table.from_batches([rows.batch])
        kept = whole.filter(self._predicate).select(self._names).combine_chunks()
        batches = kept.to_batches()
        return TableRows(
            batches[0] if batches else rows.batch.select(self._names)[:0], rows.misfits
        )

    def _early(self, number: int, records: pa.RecordBatch) -> pa.RecordBatch:
        made = rows_maker(self._table, TableView.RAW, RECORD_COLUMNS, number)(records).batch
        array: Any = pa.array
        whole: Any = pa.Table.from_batches([made]).append_column(
            "row", array(range(records.num_rows), pa.int64())
        )
        kept = whole.filter(self._predicate).column("row")
        if len(kept) == records.num_rows:
            return records
        found: pa.RecordBatch = records.take(kept.combine_chunks())
        return found


def _has_plain_names(schema: pa.Schema) -> bool:
    """Whether no name could be taken for the syntax of a serialized expression."""
    return all("\n" not in f"{each.name}{each.type}" for each in schema)


class TableDataset(_Dataset):  # type: ignore[misc]
    """A table for DuckDB, which pushes columns and predicates into `scanner`.

    Note: DuckDB calls `scanner` of the class of a `pyarrow.dataset.Dataset`, once for each scan.
    """

    def __init__(
        self,
        schema: pa.Schema,
        open_batches: Callable[[Sequence[str], Any], Iterator[pa.RecordBatch]],
    ) -> None:
        self._table_schema = schema
        self._open_batches = open_batches

    @property
    def schema(self) -> pa.Schema:
        return self._table_schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: A002 - DuckDB's name
        **_: object,
    ) -> "_Scanner":
        names = self._table_schema.names if columns is None else list(columns)
        schema = pa.schema([self._table_schema.field(each) for each in names])
        return _Scanner(
            pa.RecordBatchReader.from_batches(schema, self._open_batches(names, filter))
        )


class _Scanner:
    """The part of `pyarrow.dataset.Scanner` that DuckDB uses."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    @property
    def projected_schema(self) -> pa.Schema:
        return self._reader.schema

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader
