"""Memory of the JVM and of Python workers while a query runs for an hour.

A producer sends 100 records per second, and a query with a trigger of one second writes them
exactly once to another topic. Every few seconds the anonymous memory of the JVM and of each kind of
Python process is read, in which pages that forked workers share count once. Mapped files are left
out: their share grows when other programs end that use the same libraries.

Figures are the median of the last tenth of the run, and the slope by least squares without the
first quarter, in which the JVM's heap grows and workers start.

HEADWATER_MEMORY_MINUTES sets how long it runs.
"""

import os
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.harness import Bench
from bench.processes import Server, broker
from bench.spark_queries import options_set, spark_session
from bench.spark_throughput import subscription
from bench.topics import create_topic
from headwater.client import Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES: Final = float(os.environ.get("HEADWATER_MEMORY_MINUTES", "60"))
PARTITIONS: Final = 2
RECORDS_PER_S: Final = 100
VALUE: Final = b"." * 100
LOOK_EVERY_S: Final = 5.0
# A leak of a hundred bytes per task would be more than this after an hour of small batches.
SLOPE_MAX_MIB: Final = 10.0
_MIB: Final = 1 << 20
_KINDS: Final = {
    "pyspark.worker": "workers of tasks",
    "python_streaming_source_runner": "reader of the stream",
    "pyspark.sql.worker.": "planners",
}


def measure(bench: Bench) -> None:
    with broker() as (server, _), spark_session() as spark:
        for topic in ("memory-in", "memory-out"):
            create_topic(server, topic, PARTITIONS)
        samples = _watched(spark, server)
    print(f"{len(samples)} samples in {MINUTES:g} minutes")
    kinds = sorted({kind for _, sizes in samples for kind in sizes})
    for kind in kinds:
        times_s = [at_s for at_s, _ in samples]
        sizes = [each.get(kind, 0.0) for _, each in samples]
        bench.record(f"{kind}: memory", _last(sizes), "MiB")
        bench.record(
            f"{kind}: slope",
            slope_per_hour(times_s, sizes),
            "MiB/h",
            # The JVM's heap grows to its limit, and is no measure of a leak.
            at_most=None if kind == "JVM" else SLOPE_MAX_MIB,
        )


def slope_per_hour(times_s: Sequence[float], values: Sequence[float]) -> float:
    """Slope by least squares of all but the first quarter of the values."""
    first = len(values) // 4
    return 3600 * float(np.polyfit(times_s[first:], values[first:], 1)[0])


def _last(values: Sequence[float]) -> float:
    return statistics.median(values[-max(1, len(values) // 10) :])


def _watched(spark: "SparkSession", server: Server) -> list[tuple[float, dict[str, float]]]:
    """Run the query; return times and sizes in MiB by kind of process."""
    side = subscription(server, "headwater", "memory-in")
    is_over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", ignore_cleanup_errors=True) as path:
        frame = options_set(spark.readStream.format(side.format), side.options).load()
        options = {
            "kafka.bootstrap.servers": server.address,
            "topic": "memory-out",
            "delivery": "exactly-once",
            "checkpointLocation": f"{path}/checkpoint",
        }
        writer = frame.select("key", "value").writeStream.format("headwater")
        query = options_set(writer, options).trigger(processingTime="1 second").start()
        sender = threading.Thread(target=_send, args=(server, is_over))
        sender.start()
        try:
            samples = []
            began_s = time.monotonic()
            while (at_s := time.monotonic() - began_s) < 60 * MINUTES:
                assert query.isActive, query.exception()
                samples.append((at_s, _sizes()))
                time.sleep(LOOK_EVERY_S)
            return samples
        finally:
            is_over.set()
            sender.join()
            query.stop()


def _send(server: Server, is_over: threading.Event) -> None:
    with Producer(bootstrap_servers=server.address) as producer:
        began_s = time.monotonic()
        number = 0
        while not is_over.wait(max(0.0, began_s + number / RECORDS_PER_S - time.monotonic())):
            producer.send("memory-in", VALUE, partition=number % PARTITIONS)
            number += 1


def _sizes() -> dict[str, float]:
    sizes: dict[str, float] = defaultdict(float)
    for pid in _descendants(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            # It has ended.
            continue
        kind = _kind(command)
        if kind is not None:
            pss_bytes = sum(int(each.split()[1]) * 1024 for each in lines if "Pss_Anon" in each)
            sizes[kind] += pss_bytes / _MIB
    return dict(sizes)


def _kind(command: str) -> str | None:
    if "org.apache.spark" in command:
        return "JVM"
    return next((kind for word, kind in _KINDS.items() if word in command), None)


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(each) for each in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_descendants(child)]
    return found
