"""Tests that every connector must pass: base classes with a few methods.

    class TestWeather(SourceChecks):
        def source(self) -> Source:
            return WeatherSource({"station": "Greenwich"})

        def add(self, count: int) -> None:
            ...  # add this many rows to the external system

Note: exactly-once delivery depends on these properties. A source that returns different rows for
the same positions, or a sink that stores repeated writes twice, works until the first failure.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from headwater.connect.connector import Part, Position, Sink, Source
from headwater.spark.exceptions import InvalidOption

_QUERY = "00000000-0000-0000-0000-000000000001"


class SourceChecks(ABC):
    """Tests for a source. Inherit from it; pytest collects the tests."""

    @abstractmethod
    def source(self) -> Source:
        """A new source with each call, for the same external data within a test."""

    @abstractmethod
    def add(self, count: int) -> None:
        """Add this many rows to the external data."""

    def test_rows_have_the_columns_of_the_schema(self) -> None:
        self.add(3)
        schema = self.source().schema()
        batches = list(_between(self.source(), {}, self.source().latest({})))
        assert batches
        assert all(batch.schema.equals(schema) for batch in batches)

    def test_all_rows_are_read_and_then_only_new_ones(self) -> None:
        self.add(5)
        first, rows = _read_on(self.source(), {})
        assert len(rows) == 5
        self.add(3)
        _, more = _read_on(self.source(), first)
        assert len(more) == 3
        assert not [row for row in more if row in rows]

    def test_where_nothing_is_new_the_position_stays(self) -> None:
        self.add(2)
        end, _ = _read_on(self.source(), {})
        assert self.source().latest(end) == end
        assert not list(_between(self.source(), end, end))

    def test_the_same_positions_bring_the_same_rows_again_whatever_came_meanwhile(self) -> None:
        self.add(4)
        end = self.source().latest({})
        before = _rows(_between(self.source(), {}, end))
        self.add(4)
        assert _rows(_between(self.source(), {}, end)) == before

    def test_positions_and_splits_survive_json(self) -> None:
        self.add(2)
        end = self.source().latest({})
        assert json.loads(json.dumps(end)) == end
        for split in self.source().splits({}, end):
            assert json.loads(json.dumps(split)) == split

    def test_an_option_that_does_not_exist_is_refused(self) -> None:
        _refuse_unknown_option(self.source())


class SinkChecks(ABC):
    """Tests for a sink. Inherit from it; pytest collects the tests."""

    @abstractmethod
    def sink(self) -> Sink:
        """A new sink with each call, for the same external target within a test."""

    @abstractmethod
    def written(self) -> int:
        """The number of rows in the external target."""

    def rows(self, first: int, count: int) -> pa.RecordBatch:
        """Rows for the sink, with distinct numbers in `id`."""
        numbers = range(first, first + count)
        return pa.RecordBatch.from_pydict(
            {
                "id": pa.array(numbers, pa.int64()),
                "name": pa.array([f"row {number}" for number in numbers], pa.string()),
                "share": pa.array([number / 4 for number in numbers], pa.float64()),
                "at": pa.array(numbers, pa.timestamp("us", "UTC")),
            }
        )

    def test_rows_are_written_and_counted(self) -> None:
        self._prepare()
        assert self.sink().write(_part(0), iter([self.rows(0, 5), self.rows(5, 2)])) == 7
        assert self.written() == 7

    def test_a_part_that_is_written_again_is_there_once(self) -> None:
        self._prepare()
        for _ in range(2):
            self.sink().write(_part(0), iter([self.rows(0, 5)]))
        assert self.written() == 5

    def test_parts_and_batches_are_different_things(self) -> None:
        self._prepare()
        for batch_id in range(2):
            for partition in range(2):
                first = 100 * batch_id + 10 * partition
                self.sink().write(_part(batch_id, partition), iter([self.rows(first, 5)]))
        assert self.written() == 20

    def test_a_part_that_fails_in_the_middle_leaves_nothing(self) -> None:
        self._prepare()

        def broken() -> Iterator[pa.RecordBatch]:
            yield self.rows(0, 5)
            raise _Broken

        with pytest.raises(_Broken):
            self.sink().write(_part(0), broken())
        assert self.written() == 0
        self.sink().write(_part(0), iter([self.rows(0, 5)]))
        assert self.written() == 5

    def test_a_part_without_rows_is_no_mistake(self) -> None:
        self._prepare()
        assert self.sink().write(_part(0), iter([])) == 0
        assert self.written() == 0

    def test_preparing_again_changes_nothing(self) -> None:
        self._prepare()
        self.sink().write(_part(0), iter([self.rows(0, 5)]))
        self._prepare()
        assert self.written() == 5

    def test_an_option_that_does_not_exist_is_refused(self) -> None:
        _refuse_unknown_option(self.sink())

    def _prepare(self) -> None:
        self.sink().prepare(self.rows(0, 1).schema)


class _Broken(Exception):
    """Raised in the middle of the input."""


def _part(batch_id: int, partition: int = 0) -> Part:
    return Part(query_id=_QUERY, batch_id=batch_id, partition=partition)


def _between(source: Source, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
    for split in source.splits(start, end):
        yield from source.read(split)


def _read_on(source: Source, start: Position) -> tuple[Position, list[object]]:
    """Read all available rows, in as many steps as the source uses."""
    found: list[object] = []
    while (end := source.latest(start)) != start:
        found += _rows(_between(source, start, end))
        start = end
    return start, found


def _rows(batches: Iterator[pa.RecordBatch]) -> Sequence[object]:
    return [row for batch in batches for row in batch.to_pylist()]


def _refuse_unknown_option(connector: Source | Sink) -> None:
    with pytest.raises(InvalidOption):
        type(connector)({**connector.options.given, "no-such-option": "1"})
