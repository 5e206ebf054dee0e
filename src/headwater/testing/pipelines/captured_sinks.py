"""Keep the rows of sinks in memory, instead of writing them or in addition.

Spark repeats a batch after a crash. What was kept of it is then replaced, as an exactly-once sink
would do it; a connector gets the repeated batch, as in production.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from headwater.pipelines.check.connector_port import (
    Connectors,
    Options,
    SinkBatch,
    SinkConnector,
    SourceConnector,
)
from headwater.testing.pipelines.sink_rows import SinkRow

if TYPE_CHECKING:
    DataFrame = Any

SINK: Final = "pipelineTestSink"
"""The option that names the sink, since a connector does not know it."""

CAPTURE: Final = "pipeline-test"
"""The connector that keeps rows and writes nothing."""


class CapturedSinks:
    """The rows of sinks by name, and connectors that add to them."""

    def __init__(self, installed: Connectors) -> None:
        self._installed = installed
        self._batches: dict[str, dict[SinkBatch, list[SinkRow]]] = {}

    def rows(self, sink: str) -> Iterator[SinkRow]:
        """In the order of batches."""
        for rows in self._batches.get(sink, {}).values():
            yield from rows

    def keep(self, sink: str, batch: SinkBatch, rows: list[SinkRow]) -> None:
        self._batches.setdefault(sink, {})[batch] = rows

    def source_names(self) -> list[str]:
        return self._installed.source_names()

    def sink_names(self) -> list[str]:
        return [*self._installed.sink_names(), CAPTURE]

    def source(self, name: str) -> SourceConnector:
        return self._installed.source(name)

    def sink(self, name: str) -> SinkConnector:
        return _CapturedSink(self, None if name == CAPTURE else self._installed.sink(name))


class _CapturedSink:
    def __init__(self, captured: CapturedSinks, connector: SinkConnector | None) -> None:
        self._captured = captured
        self._connector = connector

    def problems(self, options: Options) -> list[str]:
        return [] if self._connector is None else self._connector.problems(options)

    def write(self, rows: "DataFrame", options: Options, batch: SinkBatch) -> None:
        given = dict(options)
        sink = given.pop(SINK)
        if self._connector is not None:
            self._connector.write(rows, given, batch)
        self._captured.keep(sink, batch, frame_rows(rows))


def frame_rows(frame: "DataFrame") -> list[SinkRow]:
    """Return rows of Python values: timestamps in UTC, structs as dictionaries."""
    return [SinkRow(row) for row in frame.toArrow().to_pylist()]
