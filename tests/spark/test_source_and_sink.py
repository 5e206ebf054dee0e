"""Topics as source and sink of real Spark queries, with a real broker."""

import json
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from headwater.spark import commit_progress
from headwater.testing import EmbeddedBroker
from tests.spark.queries import TIMEOUT_S, run_to_its_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def topic(spark_broker: EmbeddedBroker) -> str:
    """A topic of two partitions for one test."""
    return new_topic(spark_broker)


def new_topic(broker: EmbeddedBroker) -> str:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name=name, partitions=2)])
    return name


def fill(broker: EmbeddedBroker, topic: str, first: int, count: int) -> None:
    """Numbered records, alternating between both partitions."""
    numbers = range(first, first + count)
    table = pa.table(
        {
            "key": [f"k{number}".encode() for number in numbers],
            "value": [str(number).encode() for number in numbers],
            "partition": pa.array([number % 2 for number in numbers], pa.int32()),
        }
    )
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_table(topic, table).result(60)


def committed_values(broker: EmbeddedBroker, topic: str) -> list[int]:
    """Everything that a read_committed consumer sees."""
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(2)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[int] = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            found += [int(record.value or b"") for record in consumer.poll(1.0)]
    return sorted(found)


def source(
    spark: "SparkSession", broker: EmbeddedBroker, topic: str, **options: str
) -> "DataFrame":
    reader = spark.read.format("headwater")
    frame: DataFrame = _with(reader, broker, subscribe=topic, **options).load()
    return frame


def stream(
    spark: "SparkSession", broker: EmbeddedBroker, topic: str, **options: str
) -> "DataFrame":
    reader = spark.readStream.format("headwater")
    chosen = {"subscribe": topic, "startingOffsets": "earliest"} | options
    frame: DataFrame = _with(reader, broker, **chosen).load()
    return frame


def _with(reader: Any, broker: EmbeddedBroker, **options: str) -> Any:
    chosen = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers)
    for name, value in options.items():
        chosen = chosen.option(name, value)
    return chosen


def run(
    frame: "DataFrame", broker: EmbeddedBroker, checkpoint: Path, **options: str
) -> "StreamingQuery":
    """Write what is there, and wait for the end."""
    writer = frame.writeStream.format("headwater").option("checkpointLocation", str(checkpoint))
    chosen = _with(writer, broker, **options).trigger(availableNow=True)
    return run_to_its_end(chosen.start)


def test_batch_query_reads_what_was_written(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str
) -> None:
    fill(spark_broker, topic, 0, 1000)
    rows = source(spark, spark_broker, topic).collect()
    assert sorted(int(row.value) for row in rows) == list(range(1000))
    first = next(row for row in rows if row.partition == 1 and row.offset == 0)
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"k1", b"1", topic)


def test_batch_query_may_start_and_end_at_offsets(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str
) -> None:
    fill(spark_broker, topic, 0, 100)
    rows = source(
        spark,
        spark_broker,
        topic,
        startingOffsets=json.dumps({topic: {"0": 10, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 12, "1": 1}}),
    ).collect()
    assert sorted(int(row.value) for row in rows) == [1, 20, 22]


def test_schema_selects_columns_and_decodes_text(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str
) -> None:
    fill(spark_broker, topic, 0, 4)
    reader = spark.read.format("headwater").schema("value string, offset bigint")
    frame = _with(reader, spark_broker, subscribe=topic).load()
    assert frame.columns == ["value", "offset"]
    assert sorted(tuple(row) for row in frame.collect()) == [("0", 0), ("1", 0), ("2", 1), ("3", 1)]


def test_whole_batches_can_be_read_undecoded(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str
) -> None:
    fill(spark_broker, topic, 0, 500)
    rows = source(spark, spark_broker, topic, rowtype="batch").collect()
    assert sum(row.recordCount for row in rows) == 500
    assert all(len(row.batch) > 61 for row in rows)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_stream_from_topic_to_topic_continues_after_a_restart(
    spark: "SparkSession",
    spark_broker: EmbeddedBroker,
    topic: str,
    tmp_path: Path,
    delivery: str,
) -> None:
    target = new_topic(spark_broker)
    fill(spark_broker, topic, 0, 3000)
    frame = stream(spark, spark_broker, topic, maxOffsetsPerTrigger="2000").select("key", "value")
    query = run(frame, spark_broker, tmp_path, topic=target, delivery=delivery)
    assert [each["numInputRows"] for each in query.recentProgress] == [2000, 1000]
    fill(spark_broker, topic, 3000, 500)
    run(frame, spark_broker, tmp_path, topic=target, delivery=delivery)
    assert committed_values(spark_broker, target) == list(range(3500))


def test_repeated_batch_is_written_once(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    target = new_topic(spark_broker)
    fill(spark_broker, topic, 0, 1000)
    frame = stream(spark, spark_broker, topic).select("value")
    query = run(frame, spark_broker, tmp_path, topic=target, delivery="exactly-once")
    transactional_id = f"headwater-{query.id}-0"
    with Admin(bootstrap_servers=spark_broker.bootstrap_servers) as admin:
        found = admin.describe_transactions([transactional_id])[transactional_id]
    # Rows are computed while a task writes, which can take longer than a producer's minute.
    assert found.timeout_ms == 900_000
    # As if Spark died after the tasks have committed, before it recorded the commit.
    (last,) = [path for path in (tmp_path / "commits").iterdir() if path.name == "0"]
    last.unlink()
    run(frame, spark_broker, tmp_path, topic=target, delivery="exactly-once")
    assert committed_values(spark_broker, target) == list(range(1000))


def test_lag_tools_see_the_offsets_of_a_query(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    fill(spark_broker, topic, 0, 300)
    client = {"bootstrap.servers": spark_broker.bootstrap_servers}
    group = f"group-{topic}"
    listener = commit_progress(spark, client, group_id=group)
    frame = stream(spark, spark_broker, topic).select("value")
    run(frame, spark_broker, tmp_path, topic=new_topic(spark_broker))
    ends = {TopicPartition(topic, number): 150 for number in range(2)}
    with Admin(client) as admin:
        until_s = time.monotonic() + TIMEOUT_S
        found: dict[TopicPartition, int] = {}
        # Listeners are notified some time after a batch has ended.
        while found != ends:
            assert time.monotonic() < until_s, found
            listed = admin.list_group_offsets(group)
            found = {each: position.offset for each, position in listed.items()}
    spark.streams.removeListener(listener)
    listener.close()


def test_sql_reads_and_writes_topics(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str
) -> None:
    servers = spark_broker.bootstrap_servers
    rows = spark.createDataFrame([("k", "41"), ("k", "42")], "key string, value string")
    writer = rows.write.format("headwater").option("kafka.bootstrap.servers", servers)
    writer.option("topic", topic).mode("append").save()
    spark.sql(
        f"create or replace temporary view tea using headwater options "
        f"(`kafka.bootstrap.servers` '{servers}', subscribe '{topic}')"
    )
    found = spark.sql("select cast(value as string) v from tea where key = X'6b' order by v")
    assert [row.v for row in found.collect()] == ["41", "42"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "no-such-topic"}, "there is no topic no-such-topic"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"startingOffsets": "latest"}, "cannot be latest for a batch query"),
    ],
)
def test_invalid_query_fails_with_a_reason(
    spark: "SparkSession",
    spark_broker: EmbeddedBroker,
    topic: str,
    options: dict[str, str],
    reason: str,
) -> None:
    from pyspark.errors import PySparkException

    chosen = {"subscribe": topic} | options
    with pytest.raises(PySparkException, match=reason):
        _with(spark.read.format("headwater"), spark_broker, **chosen).load().collect()


def test_invalid_rows_are_rejected(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str
) -> None:
    from pyspark.errors import PySparkException

    rows = spark.range(3)
    writer = _with(rows.write.format("headwater"), spark_broker, topic=topic)
    with pytest.raises(PySparkException, match="there is no column value among id"):
        writer.mode("append").save()
