"""Rows per second through Spark: Headwater, Spark's own connector and confluent-kafka.

Records of two partitions, with a key of 16 bytes and a value of 100, go from a topic to a noop
sink, to Parquet and to another topic, each in one batch of a streaming query on two cores.

Note: sources return all their columns, but only key and value are written to topics, because
producers do not set offsets.
"""

import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from bench.harness import Bench, in_turn
from bench.processes import Server, broker
from bench.spark_queries import Side, connector_jars, run, spark_session
from bench.topics import create_topic
from headwater.client import Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS: Final = 3
PARTITIONS: Final = 2
# Slow contenders read fewer records, so that a round takes about as long for each.
RECORDS: Final = 4_000_000
FEW_RECORDS: Final = 500_000
AT_ONCE: Final = 250_000
KEY_BYTES: Final = 16
VALUE_BYTES: Final = 100

NOOP_GOAL: Final = 1_500_000
TOPIC_GOAL: Final = 600_000

NOOP: Final = Side(format="noop")
PARQUET: Final = Side(format="parquet")


def measure(bench: Bench) -> None:
    with broker() as (server, _), spark_session() as spark:
        for name, count in (("many", RECORDS), ("few", FEW_RECORDS)):
            create_topic(server, name, PARTITIONS)
            fill(server, name, count)
        contenders = _contenders(spark, server)
        for warm_up in contenders.values():
            warm_up()
        found = in_turn(contenders, ROUNDS)
    _record(bench, {label: statistics.median(rates) for label, rates in found.items()})


def fill(server: Server, topic: str, count: int) -> None:
    """Fill a topic with records of distinct keys."""
    with Producer(bootstrap_servers=server.address, linger_ms=5) as producer:
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            keys = [number.to_bytes(KEY_BYTES, "big") for number in numbers]
            values = [key * (VALUE_BYTES // KEY_BYTES + 1) for key in keys]
            table = pa.table(
                {
                    "key": pa.array(keys, pa.binary()),
                    "value": pa.array([value[:VALUE_BYTES] for value in values], pa.binary()),
                    "partition": pa.array([each % PARTITIONS for each in numbers], pa.int32()),
                }
            )
            producer.send_table(topic, table).result()


def _contenders(spark: "SparkSession", server: Server) -> dict[str, Callable[[], float]]:
    many = subscription(server, "headwater", "many")
    few = Side(
        format="confluent",
        options={"servers": server.address, "topic": "few", "partitions": str(PARTITIONS)},
    )
    rows = ("key", "value")
    found: dict[str, Callable[[], float]] = {
        "topic to noop": partial(_rate, spark, many, NOOP),
        "topic to Parquet": partial(_rate, spark, many, PARQUET),
        "topic to topic, at least once": partial(
            _rate, spark, many, into_topic(server, "headwater"), *rows
        ),
        "topic to topic, exactly once": partial(
            _rate, spark, many, into_topic(server, "headwater", delivery="exactly-once"), *rows
        ),
        "topic to noop, confluent-kafka": partial(_rate, spark, few, NOOP),
        "topic to topic, confluent-kafka": partial(
            _rate, spark, few, into_topic(server, "confluent"), *rows
        ),
    }
    if connector_jars() is None:
        print("Spark's own connector is missing: run `make peers`", file=sys.stderr)
        return found
    theirs = subscription(server, "kafka", "many")
    return found | {
        "topic to noop, connector": partial(_rate, spark, theirs, NOOP),
        "topic to Parquet, connector": partial(_rate, spark, theirs, PARQUET),
        "topic to topic, connector": partial(
            _rate, spark, theirs, into_topic(server, "kafka"), *rows
        ),
    }


def subscription(server: Server, format_name: str, topic: str, **options: str) -> Side:
    """Return a topic from its beginning as a source."""
    chosen = {
        "kafka.bootstrap.servers": server.address,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **options,
    }
    return Side(format=format_name, options=chosen)


def into_topic(server: Server, format_name: str, **options: str) -> Side:
    """Return a new topic as a sink, with as many partitions as the source."""
    topic = "-".join(["into", format_name, *options.values()])
    create_topic(server, topic, PARTITIONS)
    servers = "servers" if format_name == "confluent" else "kafka.bootstrap.servers"
    return Side(format=format_name, options={servers: server.address, "topic": topic, **options})


def _rate(spark: "SparkSession", source: Side, sink: Side, *columns: str) -> float:
    return run(spark, source, sink, *columns).rows_per_second


def _record(bench: Bench, rates: dict[str, float]) -> None:
    goals = {"topic to noop": NOOP_GOAL, "topic to topic, at least once": TOPIC_GOAL}
    for label, rate in rates.items():
        bench.record(label, rate, "rows/s", at_least=goals.get(label))
    for ours, theirs in (
        ("topic to noop", "topic to noop, connector"),
        ("topic to Parquet", "topic to Parquet, connector"),
        ("topic to topic, at least once", "topic to topic, connector"),
        ("topic to topic, exactly once", "topic to topic, connector"),
        ("topic to noop", "topic to noop, confluent-kafka"),
        ("topic to topic, at least once", "topic to topic, confluent-kafka"),
    ):
        if theirs in rates:
            bench.record(
                f"{ours}, times {theirs.rpartition(', ')[2]}",
                rates[ours] / rates[theirs],
                "x",
                compared_with=theirs,
                at_least=1.0,
            )
