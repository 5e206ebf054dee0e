"""Installed connectors as sources and sinks of pipelines.

Note: a pipeline writes with `foreachBatch`, which runs a batch query per streaming batch. So the
query and batch id are passed to the connector; otherwise a batch that Spark repeats would be
written twice.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.connect.connector_registry import SINKS, SOURCES, known, open_sink, open_source
from headwater.pipelines.check.connector_port import (
    Options,
    SinkBatch,
    SinkConnector,
    SourceConnector,
)
from headwater.spark.exceptions import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMAT = "headwater-connect"


class InstalledConnectors:
    """`headwater.pipelines.check.connector_port.Connectors`, found by entry points."""

    def source_names(self) -> list[str]:
        return list(known(SOURCES))

    def sink_names(self) -> list[str]:
        return list(known(SINKS))

    def source(self, name: str) -> SourceConnector:
        if name not in known(SOURCES):
            raise KeyError(name)
        return _InstalledSource(name)

    def sink(self, name: str) -> SinkConnector:
        if name not in known(SINKS):
            raise KeyError(name)
        return _InstalledSink(name)


class _InstalledSource:
    def __init__(self, name: str) -> None:
        self._name = name

    def problems(self, options: Options) -> list[str]:
        return _problems(lambda: open_source(self._name, options))

    def stream(self, spark: "SparkSession", options: Options) -> "DataFrame":
        reader = spark.readStream.format(_FORMAT).option("connector", self._name)
        return reader.options(**options).load()


class _InstalledSink:
    def __init__(self, name: str) -> None:
        self._name = name

    def problems(self, options: Options) -> list[str]:
        return _problems(lambda: open_sink(self._name, options))

    def write(self, rows: "DataFrame", options: Options, batch: SinkBatch) -> None:
        writer = rows.write.format(_FORMAT).mode("append").option("connector", self._name)
        named = {"queryId": batch.query_id, "batchId": str(batch.batch_id)}
        writer.options(**options, **named).save()


def _problems(open_it: Callable[[], object]) -> list[str]:
    """Problems with a connector's options. Connectors report one at a time."""
    try:
        open_it()
    except InvalidOption as error:
        return [str(error)]
    return []
