"""Throughput of a mirror, compared with a confluent-kafka consumer and producer in a loop.

Both copy the same topic between the same two brokers, in turn.

Note: the mirror's time includes creating topics and finding offsets, but not the start of Spark's
JVM, which happens once in the life of a mirror.
"""

import logging
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

import confluent_kafka

from bench.harness import Bench, in_turn
from headwater.client import Admin
from headwater.mirror.mirror import Mirror
from headwater.mirror.mirror_options import mirror_options
from headwater.mirror.spark_tasks import SparkTasks
from headwater.spark import session
from headwater.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS: Final = 1_000_000
VALUE_BYTES: Final = 100
PARTITIONS: Final = 2
ROUNDS: Final = 3
AT_ONCE: Final = 10_000
GOAL: Final = 1.0
TOPIC: Final = "orders"


def measure(bench: Bench) -> None:
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with EmbeddedBroker() as source, EmbeddedBroker() as target:
        began = time.perf_counter()
        spark = session(conf={"spark.log.level": "ERROR"})
        bench.record("Spark's start, once", time.perf_counter() - began, "s")
        try:
            _fill(source.bootstrap_servers, "warm", AT_ONCE)
            _fill(source.bootstrap_servers, TOPIC, RECORDS)
            _compare(bench, spark, source.bootstrap_servers, target.bootstrap_servers)
        finally:
            spark.stop()


def _fill(servers: str, topic: str, records: int) -> None:
    """Fill a topic with confluent-kafka's batches, so that no contender is favoured."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 5})
    value = bytes(VALUE_BYTES)
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def _compare(bench: Bench, spark: "SparkSession", source: str, target: str) -> None:
    turns = count()
    at_least = partial(_mirror, spark, source, target, turns, "at-least-once")
    exactly = partial(_mirror, spark, source, target, turns, "exactly-once")
    # Python workers start with the first tasks.
    _mirror(spark, source, target, turns, "at-least-once", topic="warm")
    contenders: dict[str, Callable[[], float]] = {
        "mirror": at_least,
        "mirror, exactly once": exactly,
        "confluent-kafka, bare loop": partial(_bare_loop, source, target, turns),
    }
    rates = {label: statistics.median(each) for label, each in in_turn(contenders, ROUNDS).items()}
    for label, rate in rates.items():
        bench.record(f"{label}, {VALUE_BYTES} B", rate, "records/s")
    bare = rates["confluent-kafka, bare loop"]
    for label in ("mirror", "mirror, exactly once"):
        bench.record(
            f"{label}, times the bare loop",
            rates[label] / bare,
            "x",
            compared_with="confluent-kafka, bare loop",
            at_least=GOAL,
        )


def _mirror(
    spark: "SparkSession",
    source: str,
    target: str,
    turns: "count[int]",
    delivery: str,
    topic: str = TOPIC,
) -> float:
    options = mirror_options(
        source, target, topics=topic, alias=f"turn-{next(turns)}", delivery=delivery, groups=None
    )
    began = time.perf_counter()
    counts = Mirror(options, SparkTasks(spark)).run(once=True)
    return counts.records / (time.perf_counter() - began)


def _bare_loop(source: str, target: str, turns: "count[int]") -> float:
    copy = f"bare-{next(turns)}"
    with Admin(bootstrap_servers=target) as admin:
        admin.create_topic(copy, partitions=PARTITIONS)
    began = time.perf_counter()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": source, "group.id": copy, "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": target, "enable.idempotence": True, "linger.ms": 5}
    )
    copied = 0
    while copied < RECORDS:
        for message in consumer.consume(AT_ONCE, 10.0):
            _pass_on(producer, copy, message)
            copied += 1
        producer.poll(0)
    producer.flush()
    rate = copied / (time.perf_counter() - began)
    consumer.close()
    return rate


def _pass_on(
    producer: confluent_kafka.Producer, copy: str, message: confluent_kafka.Message
) -> None:
    partition, (_, timestamp_ms) = message.partition(), message.timestamp()
    assert partition is not None
    while True:
        try:
            producer.produce(
                copy,
                message.value(),
                message.key(),
                partition=partition,
                timestamp=timestamp_ms,
                headers=message.headers(),
            )
            return
        except BufferError:
            producer.poll(0.1)
