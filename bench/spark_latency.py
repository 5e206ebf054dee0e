"""Batch time and end-to-end latency of streams of 100 records per second, for both connectors.

A producer sends records of 100 bytes, each with the time of its send. A query with a trigger of 0
or 1 second takes them to another topic, where a consumer reads them, or to a noop sink, where a
record has arrived when Spark reports the end of its batch. Source and sink are of the same
connector, and all queries run in one session.

Note: a trigger of 0 starts a batch as soon as the one before has ended, so latency is about one
and a half times the batch time; with a trigger of 1 second it is half a second and the batch time.
"""

import itertools
import json
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from bench.harness import Bench, in_turn
from bench.processes import Server, broker
from bench.spark_queries import Side, connector_jars, options_set, spark_session
from bench.spark_throughput import NOOP, subscription
from bench.topics import create_topic
from headwater.client import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROUNDS: Final = 3
PARTITIONS: Final = 2
RECORDS_PER_S: Final = 100
# Sent before the measurement, while workers start and the JVM compiles.
WARM_UP_S: Final = 3
MEASURED_S: Final = 6
VALUE_BYTES: Final = 100
TIMEOUT_S: Final = 120
TRIGGERS: Final = {"0": "0 seconds", "1 s": "1 second"}
SINKS: Final = ("noop", "topic")
_SENT: Final = struct.Struct(">d")
_TOPICS: Final = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Median batch time, and percentiles of the latency of records."""

    batch_ms: float
    p50_ms: float
    p99_ms: float


def measure(bench: Bench) -> None:
    formats = ["headwater"] if connector_jars() is None else ["headwater", "kafka"]
    with broker() as (server, _), spark_session() as spark:
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "2000")
        contenders: dict[str, Callable[[], Measured]] = {
            f"{sink}, trigger {trigger}, {name}": partial(_stream, spark, server, name, sink, every)
            for trigger, every in TRIGGERS.items()
            for sink in SINKS
            for name in formats
        }
        found = in_turn(contenders, ROUNDS)
    medians = {label: _median(rounds) for label, rounds in found.items()}
    for label, each in medians.items():
        theirs = medians.get(label.replace("headwater", "kafka")) if "headwater" in label else None
        other = None if theirs is None else label.replace("headwater", "kafka")
        for name in ("batch_ms", "p50_ms", "p99_ms"):
            bench.record(
                f"{_TITLES[name]} to {label}",
                getattr(each, name),
                "ms",
                compared_with=other,
                at_most=None if theirs is None or name == "p99_ms" else getattr(theirs, name),
            )


_TITLES: Final = {"batch_ms": "batch", "p50_ms": "latency p50", "p99_ms": "latency p99"}


def _median(rounds: list[Measured]) -> Measured:
    return Measured(
        batch_ms=statistics.median(each.batch_ms for each in rounds),
        p50_ms=statistics.median(each.p50_ms for each in rounds),
        p99_ms=statistics.median(each.p99_ms for each in rounds),
    )


def _stream(
    spark: "SparkSession", server: Server, format_name: str, sink: str, every: str
) -> Measured:
    """Run one query for some seconds and measure its last ones."""
    number = next(_TOPICS)
    source, target = f"latency-in-{number}", f"latency-out-{number}"
    for topic in (source, target):
        create_topic(server, topic, PARTITIONS)
    options = {"kafka.bootstrap.servers": server.address, "topic": target}
    to = NOOP if sink == "noop" else Side(format=format_name, options=options)
    with _query(spark, subscription(server, format_name, source), to, every) as query:
        arrivals = _Arrivals(server, target)
        with arrivals if sink == "topic" else _nothing():
            _send(server, source, 1, None)
            _await_rows(query, 1)
            sent = _send(
                server, source, RECORDS_PER_S * (WARM_UP_S + MEASURED_S), 1 / RECORDS_PER_S
            )
            _await_rows(query, 1 + len(sent))
            if sink == "topic":
                arrivals.await_count(1 + len(sent))
        batches = [each for each in query.recentProgress if each["numInputRows"]]
    since_s = sent[RECORDS_PER_S * WARM_UP_S][1]
    arrived = arrivals.found if sink == "topic" else _ends_of_batches(batches, source, sent)
    latencies_ms = sorted(1000 * (at_s - from_s) for from_s, at_s in arrived if from_s >= since_s)
    measured = [each for each in batches if _began_s(each) >= since_s]
    return Measured(
        batch_ms=statistics.median(_batch_ms(each) for each in measured),
        p50_ms=latencies_ms[len(latencies_ms) // 2],
        p99_ms=latencies_ms[len(latencies_ms) * 99 // 100],
    )


@contextmanager
def _query(
    spark: "SparkSession", source: Side, sink: Side, every: str
) -> "Iterator[StreamingQuery]":
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", ignore_cleanup_errors=True) as path:
        frame = options_set(spark.readStream.format(source.format), source.options).load()
        options = {"checkpointLocation": f"{path}/checkpoint", **sink.options}
        writer = options_set(
            frame.select("key", "value").writeStream.format(sink.format), options
        ).trigger(processingTime=every)
        query: StreamingQuery = writer.start()
        try:
            yield query
        finally:
            query.stop()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _send(
    server: Server, topic: str, count: int, interval_s: float | None
) -> list[tuple[tuple[int, int], float]]:
    """Send records at a steady rate; return partition, offset and time of each."""
    futures = []
    with Producer(bootstrap_servers=server.address) as producer:
        began_s = time.time()
        for number in range(count):
            if interval_s is not None:
                time.sleep(max(0.0, began_s + number * interval_s - time.time()))
            now_s = time.time()
            value = _SENT.pack(now_s).ljust(VALUE_BYTES, b".")
            partition = number % PARTITIONS
            futures.append((producer.send(topic, value, partition=partition), now_s))
        return [
            ((found.partition, found.offset), at_s)
            for found, at_s in ((future.result(60), at_s) for future, at_s in futures)
        ]


class _Arrivals(threading.Thread):
    """Consumer of the target topic, with the time of the send and of the arrival of records."""

    def __init__(self, server: Server, topic: str) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._topic = topic
        self._is_over = threading.Event()
        self.found: list[tuple[float, float]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        places = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        with Consumer(
            bootstrap_servers=self._server.address, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(places)
            while not self._is_over.is_set():
                records = consumer.poll(0.2)
                now_s = time.time()
                self.found += [(_SENT.unpack_from(each.value or b"")[0], now_s) for each in records]

    def await_count(self, count: int) -> None:
        until_s = time.monotonic() + TIMEOUT_S
        while len(self.found) < count:
            assert time.monotonic() < until_s, f"{len(self.found)} of {count} records arrived"
            time.sleep(0.05)


def _await_rows(query: "StreamingQuery", count: int) -> None:
    until_s = time.monotonic() + TIMEOUT_S
    while sum(each["numInputRows"] for each in query.recentProgress) < count:
        assert query.isActive, query.exception()
        assert time.monotonic() < until_s, "the query has not read all records"
        time.sleep(0.2)


def _ends_of_batches(
    batches: list[Any], topic: str, sent: list[tuple[tuple[int, int], float]]
) -> list[tuple[float, float]]:
    """The time of the send of each record, and of the end of the batch that has read it."""
    found = []
    ends = [(_offsets(each["sources"][0]["endOffset"], topic), each) for each in batches]
    for (partition, offset), at_s in sent:
        batch = next(each for until, each in ends if offset < until[partition])
        found.append((at_s, _began_s(batch) + _batch_ms(batch) / 1000))
    return found


def _offsets(told: Any, topic: str) -> dict[int, int]:
    document = json.loads(told) if isinstance(told, str) else told
    return {int(partition): int(offset) for partition, offset in document[topic].items()}


def _began_s(progress: Any) -> float:
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def _batch_ms(progress: Any) -> float:
    return float(progress["durationMs"]["triggerExecution"])
