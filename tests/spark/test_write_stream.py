"""`write_stream` and typed values in real Spark queries, with a real broker."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.client import Consumer, Producer, TopicPartition
from headwater.spark import write_stream
from headwater.spark.exceptions import InvalidOption, UnsafeReplay, WrongColumns
from headwater.testing import EmbeddedBroker
from tests.spark.queries import run_to_its_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVAILABLE_NOW = {"availableNow": True}


def typed_orders(spark: "SparkSession", broker: EmbeddedBroker, topic: str) -> "DataFrame":
    return (
        spark.readStream.format("headwater")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 60)
        .option("valueFormat", "json")
        .schema("key string, value struct<id: bigint, at: timestamp>")
        .load()
    )


def fill(broker: EmbeddedBroker, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            document = {"id": number, "at": f"2026-01-01T00:00:{number % 60:02}Z"}
            value = json.dumps(document).encode()
            producer.send(topic, value, key=b"k%d" % (number % 3), partition=number % 2)


def committed(broker: EmbeddedBroker, topic: str) -> list[tuple[str, Any]]:
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(2)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[tuple[str, Any]] = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            found += [
                ((record.key or b"").decode(), json.loads(record.value or b"null"))
                for record in consumer.poll(1.0)
            ]
    return sorted(found, key=str)


def test_updates_of_a_typed_stream_are_written_once_if_a_batch_is_repeated(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    from pyspark.sql import functions

    fill(spark_broker, "orders-to-count", 90)
    counts = (
        typed_orders(spark, spark_broker, "orders-to-count")
        .groupBy("key")
        .agg(functions.count("*").alias("orders"), functions.max("value.id").alias("newest"))
        .select("key", functions.struct("orders", "newest").alias("value"))
    )

    def run() -> None:
        run_to_its_end(
            lambda: write_stream(
                counts,
                bootstrap_servers=spark_broker.bootstrap_servers,
                topic="counts",
                mode="update",
                checkpoint=tmp_path,
                trigger=AVAILABLE_NOW,
                options={"valueFormat": "json"},
            )
        )

    run()
    first = [(f"k{n}", {"orders": 20, "newest": 57 + n}) for n in range(3)]
    second = [(f"k{n}", {"orders": 30, "newest": 87 + n}) for n in range(3)]
    assert committed(spark_broker, "counts") == sorted(first + second, key=str)
    # As if Spark died after writing the last batch, before it recorded the commit.
    (tmp_path / "commits" / "1").unlink()
    run()
    assert committed(spark_broker, "counts") == sorted(first + second, key=str)


def test_stream_that_cannot_be_exactly_once_is_rejected_before_it_starts(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    from pyspark.sql import functions

    fill(spark_broker, "orders-to-refuse", 1)
    rows = typed_orders(spark, spark_broker, "orders-to-refuse").select("key", "value.id")
    fit = rows.select("key", functions.col("id").cast("string").alias("value"))
    to: dict[str, Any] = {
        "bootstrap_servers": spark_broker.bootstrap_servers,
        "topic": "refused",
    }
    with pytest.raises(UnsafeReplay, match="repartition without columns"):
        write_stream(fit.repartition(3), checkpoint=tmp_path, **to)
    # Many columns, some of which Spark would omit from the printed plan.
    wide = fit.select("*", *[functions.lit(n).alias(f"c{n}") for n in range(60)])
    with pytest.raises(UnsafeReplay, match="a column that is random"):
        write_stream(
            wide.repartition(3, functions.rand()).select("key", "value"), checkpoint=tmp_path, **to
        )
    with pytest.raises(WrongColumns, match="there is no column value"):
        write_stream(rows, checkpoint=tmp_path, **to)
    with pytest.raises(InvalidOption, match="mode must be one of"):
        write_stream(fit, checkpoint=tmp_path, mode="upsert", **to)
    with pytest.raises(InvalidOption, match="no stream"):
        write_stream(spark.range(3), checkpoint=tmp_path, **to)
    assert not spark.streams.active
    assert list(tmp_path.iterdir()) == []


def test_json_is_written_as_by_spark_and_round_trips(
    spark: "SparkSession", spark_broker: EmbeddedBroker
) -> None:
    rows = spark.sql(
        "select named_struct('n', 1, 's', 'a\"b\\n', 't', timestamp'2026-01-01 01:02:03.123', "
        "'d', date'2026-01-02', 'f', 1.5D, 'm', 1.20BD, 'l', array(1, null), "
        "'none', cast(null as int), 'o', named_struct('q', true)) value"
    )
    writer = rows.write.format("headwater").option("valueFormat", "json")
    servers = spark_broker.bootstrap_servers
    writer.option("kafka.bootstrap.servers", servers).option("topic", "typed").mode("append").save()
    reader = spark.read.format("headwater").option("kafka.bootstrap.servers", servers)
    (text,) = reader.option("subscribe", "typed").schema("value string").load().collect()
    (wanted,) = rows.selectExpr("to_json(value) text").collect()
    assert text.value == wanted.text
    schema = (
        "value struct<n: int, s: string, t: timestamp, d: date, f: double, m: decimal(3, 2), "
        "l: array<int>, none: int, o: struct<q: boolean>>"
    )
    typed = reader.option("valueFormat", "json").schema(schema).load()
    assert typed.collect() == rows.collect()


def test_unparsable_record_stops_a_query_with_its_offset(
    spark: "SparkSession", spark_broker: EmbeddedBroker
) -> None:
    from pyspark.errors import PySparkException

    with Producer(bootstrap_servers=spark_broker.bootstrap_servers) as producer:
        producer.send("spoilt", b'{"id": 1}', partition=0)
        producer.send("spoilt", b"tea", partition=0)
    reader = (
        spark.read.format("headwater")
        .option("kafka.bootstrap.servers", spark_broker.bootstrap_servers)
        .option("subscribe", "spoilt")
        .option("valueFormat", "json")
        .schema("value struct<id: bigint>, offset bigint")
    )
    with pytest.raises(PySparkException, match="value of spoilt-0 at offset 1 is not the JSON"):
        reader.load().collect()
    lenient = reader.option("mode", "PERMISSIVE").load().orderBy("offset").collect()
    assert [row.value and row.value.id for row in lenient] == [1, None]
