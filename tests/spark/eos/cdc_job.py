"""A database mirrored through topics, as a separate program that can be killed and restarted.

    python -m tests.spark.eos.cdc_job '{"brokers": ..., "tables": [...], ...}'

One Spark session has both queries: changes of the source into topics, and topics into the target.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from headwater.connect.import_export import Running, export_rows, import_rows
from headwater.pipelines.run.failure_reason import reason_of
from headwater.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PREFIX = "mirror"
_EVERY = "300 milliseconds"
_POLL_S = 0.5
_PAUSE = threading.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcJob:
    """Parameters of the queries."""

    brokers: str
    source: str
    target: str
    tables: list[str]
    slot: str
    folder: str
    rows_per_batch: int
    # Until everything that is there is mirrored; otherwise until it is killed.
    is_once: bool = False

    @property
    def topics(self) -> list[str]:
        return [f"{PREFIX}.{table}" for table in self.tables]

    def checkpoint(self, name: str) -> str:
        return f"{self.folder}/{name}"


def source_options(job: CdcJob) -> dict[str, str]:
    return {
        "uri": job.source,
        "table.include.list": ",".join(job.tables),
        "slot.name": job.slot,
        "topic.prefix": PREFIX,
        "maxRowsPerTrigger": str(job.rows_per_batch),
        "maxTransactionRows": str(job.rows_per_batch),
        "column.propagate.source.type": "true",
        "spool": f"{job.folder}/spool",
    }


def sink_options(job: CdcJob) -> dict[str, str]:
    return {"uri": job.target, "envelope": "debezium", "schema.evolution": "basic"}


def main() -> None:
    job = CdcJob(**json.loads(sys.argv[1]))
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    spark = session("local[2,4]")
    # Failures are printed here, without Java's stack traces.
    spark.sparkContext.setLogLevel("FATAL")
    starts = (partial(capture, spark, job), partial(apply, spark, job))
    if job.is_once:
        for start in starts:
            start().awaitTermination()
    else:
        keep_running(starts)
    spark.stop()


def keep_running(starts: "Sequence[Callable[[], StreamingQuery]]") -> None:
    """Start queries, and again when they have failed, as the supervisor of pipelines does."""
    queries: list[StreamingQuery | None] = [None for _ in starts]
    while True:
        for number, start in enumerate(starts):
            query = queries[number]
            if query is None or not query.isActive:
                if query is not None:
                    print(
                        f"{number} failed: {reason_of(query.exception() or RuntimeError())}",
                        flush=True,
                    )
                try:
                    queries[number] = start()
                except PySparkException as error:
                    print(f"{number} did not start: {reason_of(error)}", flush=True)
        _PAUSE.wait(_POLL_S)


def capture(spark: "SparkSession", job: CdcJob) -> "StreamingQuery":
    """Start the query that writes changes of the source to topics."""
    return import_rows(
        spark,
        "postgresql-cdc",
        source_options(job),
        bootstrap_servers=job.brokers,
        topic=PREFIX,
        running=_running(job, "captured"),
    )


def apply(spark: "SparkSession", job: CdcJob) -> "StreamingQuery":
    """Start the query that applies the topics to the target."""
    return export_rows(
        spark,
        "postgresql",
        sink_options(job),
        bootstrap_servers=job.brokers,
        topic=",".join(job.topics),
        running=_running(job, "applied"),
    )


def _running(job: CdcJob, name: str) -> Running:
    return Running(checkpoint=job.checkpoint(name), once=job.is_once, every=_EVERY)


if __name__ == "__main__":
    main()
