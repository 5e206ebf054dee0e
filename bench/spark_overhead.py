"""Overhead of a micro-batch, and the time from process start to the first batch.

Batches of two records show the first. For the second a new process is started for each run: it
creates a session, reads a topic, and reports when the first batch is done. Headwater runs in the
session of `headwater.spark`; Spark's own connector in a default session.

Note: most of a batch's cost is Spark's. It plans, writes two checkpoint files and starts tasks,
whatever the source is.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.harness import Bench, in_turn
from bench.processes import Server, broker
from bench.spark_queries import MASTER, Side, connector_jars, run, spark_session
from bench.spark_throughput import NOOP, fill, into_topic, subscription
from bench.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS: Final = 3
BATCHES: Final = 40
# The first ones wait for workers to start and for the JVM to compile.
WARM_UP: Final = 10
TOPIC: Final = "small"


def measure(bench: Bench) -> None:
    with broker() as (server, _):
        create_topic(server, TOPIC, 2)
        fill(server, TOPIC, 2 * BATCHES)
        _per_batch(bench, server)
        _first_batch(bench, server)


def _per_batch(bench: Bench, server: Server) -> None:
    formats = ["headwater"] if connector_jars() is None else ["headwater", "kafka"]
    with spark_session() as spark:
        contenders: dict[str, Callable[[], float]] = {}
        for name in formats:
            source = subscription(server, name, TOPIC, maxOffsetsPerTrigger="2")
            contenders[f"a batch, {name} to noop"] = partial(_batch_ms, spark, source, NOOP)
            contenders[f"a batch, {name} to topic"] = partial(
                _batch_ms, spark, source, into_topic(server, name), "key", "value"
            )
        found = in_turn(contenders, ROUNDS)
    for label, times in found.items():
        bench.record(label, statistics.median(times), "ms")


def _batch_ms(spark: "SparkSession", source: Side, sink: Side, *columns: str) -> float:
    return statistics.median(run(spark, source, sink, *columns).batch_ms[WARM_UP:])


def _first_batch(bench: Bench, server: Server) -> None:
    names = ["headwater"] if connector_jars() is None else ["headwater", "kafka"]
    contenders = {name: partial(_seconds_to_first_batch, server, name) for name in names}
    for name, seconds in in_turn(contenders, ROUNDS).items():
        bench.record(f"from nothing to a batch, {name}", statistics.median(seconds), "s")


def _seconds_to_first_batch(server: Server, format_name: str) -> float:
    """Wait until the child reports a batch; how long it takes to exit does not matter."""
    command = [sys.executable, "-m", "bench.spark_overhead", server.address, format_name]
    began = time.time()
    told = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    return float(told.stdout.split()[-1]) - began


def read_first_batch(address: str, format_name: str) -> None:
    """Read a batch in a new session, and print the time when it is done."""
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC}
    source = Side(format=format_name, options={**options, "startingOffsets": "earliest"})
    spark = _new_session(format_name)
    run(spark, source, NOOP)
    print(time.time())
    spark.stop()


def _new_session(format_name: str) -> "SparkSession":
    if format_name == "headwater":
        from headwater.spark import session

        return session(MASTER)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER)
    return builder.config("spark.jars", connector_jars() or "").getOrCreate()


if __name__ == "__main__":
    read_first_batch(*sys.argv[1:])
