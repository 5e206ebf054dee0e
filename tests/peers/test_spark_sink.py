"""The same rows written by Spark's Kafka connector and by Headwater's give the same records.

On Apache Kafka and on Headwater, so that Spark's sink is also tested as a client of Headwater.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.peers.spark_sides import OURS, THEIRS, TIMEOUT_S, Options, SparkSides, refuses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADERS = "headers array<struct<key: string, value: binary>>"


@pytest.fixture(scope="module", params=["headwater", "apache_kafka"])
def sides(request: pytest.FixtureRequest, spark_with_connector: "SparkSession") -> SparkSides:
    broker = request.getfixturevalue(request.param)
    return SparkSides(spark_with_connector, broker.bootstrap_servers)


# A schema and its rows; "T" stands for the topic that a test writes to.
WRITTEN: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "texts": ("key string, value string", [("a", "1"), ("ä", "2"), ("c", "")]),
    "bytes": ("value binary, key binary", [(b"1", b"a"), (b"\xff", b"\x00")]),
    "nulls": ("key string, value string", [("a", None), (None, "2"), (None, None)]),
    "only values": ("value string", [("1",), ("2",)]),
    "headers": (
        f"key string, value string, {HEADERS}",
        [("a", "1", [("h", b"x"), ("h", None)]), ("b", "2", []), ("c", "3", None)],
    ),
    "partitions": (
        "key string, value string, partition int",
        [("a", "1", 0), ("a", "2", 1), ("b", "3", None), ("c", "4", None)],
    ),
    "other columns": (
        "key string, value string, offset bigint, timestamp timestamp, amount int",
        [("a", "1", 5, None, 3)],
    ),
    "a topic's column": ("topic string, key string, value string", [("T", "a", "1")]),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_both_write_the_same_records(sides: SparkSides, what: str) -> None:
    schema, rows = WRITTEN[what]
    found = {}
    for format_name in (THEIRS, OURS):
        topic = sides.new_topic()
        given = [tuple(topic if each == "T" else each for each in row) for row in rows]
        frame = sides.spark.createDataFrame(given, schema)
        sides.write(format_name, frame, {} if "topic" in schema else {"topic": topic})
        found[format_name] = sides.written(topic)
    assert len(found[THEIRS]) == len(rows)
    assert found[OURS] == found[THEIRS]


@pytest.mark.parametrize("format_name", [THEIRS, OURS])
def test_topic_option_overrides_the_column(sides: SparkSides, format_name: str) -> None:
    topic, other = sides.new_topic(), sides.new_topic()
    frame = sides.spark.createDataFrame([(other, "1")], "topic string, value string")
    sides.write(format_name, frame, {"topic": topic, "includeHeaders": "true"})
    assert (len(sides.written(topic)), len(sides.written(other))) == (1, 0)


REFUSED: dict[str, tuple[str, tuple[Any, ...], Options]] = {
    "no topic": ("value string", ("1",), {}),
    "no value": ("key string", ("1",), {"topic": "T"}),
    "a number": ("value int", (1,), {"topic": "T"}),
    "a number as key": ("value string, key int", ("1", 1), {"topic": "T"}),
    "a partition as text": ("value string, partition string", ("1", "0"), {"topic": "T"}),
    "headers as text": ("value string, headers string", ("1", "h"), {"topic": "T"}),
    "a topic as number": ("value string, topic int", ("1", 1), {}),
    "a row without topic": ("value string, topic string", ("1", None), {}),
    "no such partition": ("value string, partition int", ("1", 7), {"topic": "T"}),
    "a serializer": ("value string", ("1",), {"topic": "T", "kafka.key.serializer": "x"}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_both_reject_the_same_rows(sides: SparkSides, what: str) -> None:
    schema, row, options = REFUSED[what]
    topic = sides.new_topic()
    # Their producer asks for a partition that is not there for as long as it may block.
    given = {"topic": topic, "kafka.max.block.ms": "3000"} if options else {}
    frame = sides.spark.createDataFrame([row], schema)
    for format_name in (THEIRS, OURS):
        assert refuses(sides.write, format_name, frame, {**options, **given}), format_name


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_only_append_mode_is_supported(sides: SparkSides, mode: str) -> None:
    frame = sides.spark.createDataFrame([("1",)], "value string")
    for format_name in (THEIRS, OURS):
        options = {"topic": sides.new_topic()}
        assert refuses(sides.write, format_name, frame, options, mode), format_name


@pytest.mark.parametrize(("source", "sink"), [(THEIRS, OURS), (OURS, THEIRS)])
def test_stream_may_read_with_one_and_write_with_the_other(
    sides: SparkSides, tmp_path: Path, source: str, sink: str
) -> None:
    topic, target = sides.new_topic(), sides.new_topic()
    sides.fill(topic, 0, 40)
    servers = {"kafka.bootstrap.servers": sides.servers}
    reader: Any = sides.spark.readStream.format(source).options(**servers)
    reader = reader.options(subscribe=topic, startingOffsets="earliest", includeHeaders="true")
    frame = reader.load().select("key", "value", "headers", "partition")
    writer: Any = frame.writeStream.format(sink).options(**servers, topic=target)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert writer.start().awaitTermination(TIMEOUT_S)
    assert sides.written(target) == sides.written(topic)
