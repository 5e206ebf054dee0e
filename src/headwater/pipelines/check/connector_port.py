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
    """Identifies a batch of a query; a repeated batch has the same identity."""

    # A UUID, stored in the checkpoint.
    query_id: str
    batch_id: int


class SourceConnector(Protocol):
    """Reads an external system as a stream."""

    def problems(self, options: Options) -> list[str]:
        """Return problems of the options, one line each, before Spark starts."""

    def stream(self, spark: "SparkSession", options: Options) -> "DataFrame":
        """Return a streaming DataFrame; the query's checkpoint stores its position."""


class SinkConnector(Protocol):
    """Writes batches of rows to an external system."""

    def problems(self, options: Options) -> list[str]:
        """Return problems of the options, one line each, before Spark starts."""

    def write(self, rows: "DataFrame", options: Options, batch: SinkBatch) -> None:
        """Write a batch; return when it is durable.

        Called in the driver, from `foreachBatch`, in the order of batches.
        """


class Connectors(Protocol):
    """The installed connectors, by name."""

    def source_names(self) -> list[str]: ...

    def sink_names(self) -> list[str]: ...

    def source(self, name: str) -> SourceConnector:
        """Raises `KeyError` for an unknown name."""

    def sink(self, name: str) -> SinkConnector:
        """Raises `KeyError` for an unknown name."""
