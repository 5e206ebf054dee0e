"""Spark session and timed streaming queries for benchmarks.

All contenders run in one session, with the same settings, on the same records.

Note: the time of a query is that of its batches as reported by Spark, without the start of the
query.
"""

import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.spark import session
from tests.peers.jars import spark_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[2]"
TIMEOUT_S: Final = 600
_REPOSITORY: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Source or sink of a query: format and options."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timing:
    """Rows and batch times reported by Spark."""

    rows: int
    batch_ms: tuple[int, ...]

    @property
    def rows_per_second(self) -> float:
        return 1000 * self.rows / sum(self.batch_ms)


def connector_jars() -> str | None:
    """Return the jars of Spark's own connector, if `make peers` has fetched them."""
    peer = spark_connector()
    return None if peer.absence() else ",".join(map(str, sorted(peer.jars.glob("*.jar"))))


@contextmanager
def spark_session() -> "Iterator[SparkSession]":
    """Session with all contenders' data sources."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    os.environ["PYTHONPATH"] = str(_REPOSITORY)
    jars = connector_jars()
    spark = session(MASTER, {"spark.jars": jars} if jars else {})
    try:
        from bench.spark_peers import ConfluentSource

        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(ConfluentSource)
        yield spark
    finally:
        spark.stop()


def run(spark: "SparkSession", source: Side, sink: Side, *columns: str) -> Timing:
    """Copy everything available from source to sink."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        frame = _with(spark.readStream.format(source.format), source.options).load()
        if columns:
            frame = frame.select(*columns)
        options = {"checkpointLocation": f"{folder}/checkpoint", **sink.options}
        if sink.format == "parquet":
            options["path"] = f"{folder}/{uuid.uuid4().hex}"
        writer = _with(frame.writeStream.format(sink.format), options)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S), "the query did not end"
        batches = [each for each in query.recentProgress if each["numInputRows"]]
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir()
    return Timing(
        sum(each["numInputRows"] for each in batches),
        tuple(each["durationMs"]["triggerExecution"] for each in batches),
    )


def _with(builder: Any, options: Mapping[str, str]) -> Any:
    for name, value in options.items():
        builder = builder.option(name, value)
    return builder
