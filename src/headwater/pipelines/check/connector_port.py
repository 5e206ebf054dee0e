"""The interface between pipelines and connectors.

A pipeline's file says `{connector: jdbc, url: ..., table: ...}`. Names that belong neither to
pipelines nor to Spark are options of the connector, as strings.

A connector does not own a query. The pipeline has the trigger, checkpoint, restarts and progress of
every sink; the connector writes one batch on request, and may be asked to write the same batch
again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBatch:
    """Which batch of which query is written: the same when Spark repeats it."""

    # A UUID that the checkpoint keeps over restarts.
    query_id: str
    batch_id: int


class SourceConnector(Protocol):
    """Reads something into a stream."""

    def problems(self, options: Options) -> list[str]:
        """What is wrong with the options, a line for each; asked before Spark is started."""

    def stream(self, spark: "SparkSession", options: Options) -> "DataFrame":
        """A streaming DataFrame; each query's checkpoint keeps its position."""


class SinkConnector(Protocol):
    """Writes batches of rows to somewhere."""

    def problems(self, options: Options) -> list[str]:
        """What is wrong with the options, a line for each; asked before Spark is started."""

    def write(self, rows: "DataFrame", options: Options, batch: SinkBatch) -> None:
        """Write a batch; return when it is durable.

        Called in the driver, from `foreachBatch`, in the order of batches.
        """


class Connectors(Protocol):
    """The installed connectors, by name."""

    def source_names(self) -> list[str]: ...

    def sink_names(self) -> list[str]: ...

    def source(self, name: str) -> SourceConnector:
        """`KeyError` if there is none of that name."""

    def sink(self, name: str) -> SinkConnector:
        """`KeyError` if there is none of that name."""
