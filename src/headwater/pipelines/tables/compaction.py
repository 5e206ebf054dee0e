"""Compact tables of a pipeline's sinks: few large files for many small ones.

Both formats commit the new files like any other writer, so readers and the running pipeline are
not disturbed. Files of a sink without a table format are not compacted.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.pipelines.run.spark_errors import in_one_line
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, SinkSpec
from headwater.pipelines.spec.spark_formats import DELTA, ICEBERG
from headwater.pipelines.tables.delta_sink import target_of
from headwater.pipelines.tables.iceberg_table import IcebergTable
from headwater.spark.exceptions import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """File counts of a sink before and after compaction."""

    sink: str
    files_before: int
    files_after: int


def tables_of(spec: PipelineSpec, sink: str | None) -> list[SinkSpec]:
    """Return the sinks to compact: the named one, or all tables."""
    named = [each for each in spec.sinks if sink is None or each.name == sink]
    if not named:
        known = ", ".join(each.name for each in spec.sinks)
        raise InvalidOption(f"there is no sink {sink}; there are {known}")
    found = [each for each in named if each.format.lower() in (DELTA, ICEBERG)]
    if not found:
        raise InvalidOption(
            "only tables of delta and iceberg can be compacted: readers of a folder would see old "
            "and new files at the same time; set files, and a longer trigger"
        )
    return found


def compact_tables(
    sinks: Iterable[SinkSpec], master: str | None, conf: Mapping[str, str]
) -> Iterator[Compacted]:
    """Compact one sink after the other; a session is started for Delta only."""
    started: list[SparkSession] = []
    try:
        for sink in sinks:
            if sink.format.lower() == ICEBERG:
                before, after = IcebergTable.of(sink.table).compact()
            else:
                if not started:
                    started.append(_session(master, conf))
                before, after = _optimize(started[0], sink)
            yield Compacted(sink=sink.name, files_before=before, files_after=after)
    finally:
        for each in started:
            each.stop()


def _session(master: str | None, conf: Mapping[str, str]) -> "SparkSession":
    from headwater.spark import session
    from headwater.spark.java_process import LOG_LEVEL

    logging.getLogger("py4j").setLevel(logging.ERROR)
    with in_one_line():
        return session(master, {LOG_LEVEL: "ERROR", **conf}, app_name="headwater-compact")


def _optimize(spark: "SparkSession", sink: SinkSpec) -> tuple[int, int]:
    with in_one_line():
        done = spark.sql(f"OPTIMIZE {target_of(sink)}").select("metrics.*").first()
    assert done is not None
    return int(done["numFilesRemoved"]), int(done["numFilesAdded"])
