"""The query under test as a separate program, which can be killed and restarted.

    python -m tests.spark.eos.job '{"brokers": ..., "source": ..., ...}'

It copies from topic to topic, exactly once, in batches of 20,000 rows, until everything is read,
and commits its offsets to a consumer group.
"""

import json
import logging
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.spark import commit_progress, session
from tests.spark.eos.faults import FaultySource, Victim, faults_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_BATCH = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Parameters of the query."""

    brokers: str
    source: str
    target: str
    group: str
    checkpoint: str
    is_shuffled: bool
    master: str = "local[2,4]"
    conf: dict[str, str] = field(default_factory=dict)


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Small batches of columns, so that a task has sent some rows while it still has others.
    conf = {"spark.sql.execution.arrow.maxRecordsPerBatch": "2000", **job.conf}
    spark = session(job.master, conf)
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(FaultySource)
    assert spark.sparkContext._jvm is not None
    faults_in(os.environ).announce(
        Victim.JVM, spark.sparkContext._jvm.ProcessHandle.current().pid()
    )
    frame: DataFrame = (
        spark.readStream.format("headwater")
        .option("kafka.bootstrap.servers", job.brokers)
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_PER_BATCH)
        .load()
        .select("key", "value")
    )
    if job.is_shuffled:
        frame = frame.repartition(3, "key")
    commits = commit_progress(spark, {"bootstrap.servers": job.brokers}, group_id=job.group)
    query = (
        frame.writeStream.format("headwater")
        .option("kafka.bootstrap.servers", job.brokers)
        .option("topic", job.target)
        .option("delivery", "exactly-once")
        .option("checkpointLocation", job.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    commits.catch_up(query)
    spark.stop()


if __name__ == "__main__":
    main()
