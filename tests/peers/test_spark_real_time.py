"""Spark's real-time mode through Spark's own Kafka connector, on Headwater's broker.

A batch of real-time mode lasts as long as its trigger says, here a minute. Records that arrive at
the target before the batch has ended were passed on one by one.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.client import Consumer, Producer, TopicPartition
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.spark_sides import OURS, THEIRS, TIMEOUT_S, SparkSides

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = "60 seconds"
RECORDS = 50


@pytest.fixture
def sides(headwater: HeadwaterBroker, spark_with_connector: "SparkSession") -> SparkSides:
    return SparkSides(spark_with_connector, headwater.bootstrap_servers)


def _start(sides: SparkSides, format_name: str, source: str, target: str, folder: Path) -> Any:
    options = {"kafka.bootstrap.servers": sides.servers, "subscribe": source}
    reader = sides.spark.readStream.format(format_name).options(**options)
    # PySpark declares no overload of trigger with realTime.
    writer: Any = reader.load().select("key", "value").writeStream.format(THEIRS)
    writer = writer.option("kafka.bootstrap.servers", sides.servers).option("topic", target)
    writer = writer.option("checkpointLocation", str(folder)).outputMode("update")
    return writer.trigger(realTime=BATCH).start()


def test_records_arrive_before_the_batch_ends(sides: SparkSides, tmp_path: Path) -> None:
    source, target = sides.new_topic(1), sides.new_topic(1)
    query = _start(sides, THEIRS, source, target, tmp_path)
    try:
        partition = TopicPartition(target, 0)
        with (
            Producer(bootstrap_servers=sides.servers) as producer,
            Consumer(bootstrap_servers=sides.servers) as consumer,
        ):
            consumer.assign([partition])
            consumer.seek_to_beginning([partition])
            # The first record shows that the query reads; the source starts at the log end.
            until_s = time.monotonic() + TIMEOUT_S
            while not consumer.poll(1.0):
                assert query.isActive, query.exception()
                assert time.monotonic() < until_s, "the query passed on nothing"
                producer.send(source, b"first").result(60)
            batches = len(query.recentProgress)
            for number in range(RECORDS):
                producer.send(source, b"%d" % number).result(60)
            found: list[bytes | None] = []
            while b"%d" % (RECORDS - 1) not in found:
                assert time.monotonic() < until_s, f"{len(found)} records arrived"
                found += [each.value for each in consumer.poll(1.0)]
            assert [each for each in found if each != b"first"] == [
                b"%d" % number for number in range(RECORDS)
            ]
            # At most one batch of a minute has ended since.
            assert len(query.recentProgress) <= batches + 1
    finally:
        query.stop()


def test_a_python_source_is_refused(sides: SparkSides, tmp_path: Path) -> None:
    """What decision 0028 rests on; if this fails, real-time mode has become possible."""
    source, target = sides.new_topic(1), sides.new_topic(1)
    query = _start(sides, OURS, source, target, tmp_path)
    try:
        with pytest.raises(Exception, match=r"(?i)real.?time"):
            assert query.awaitTermination(TIMEOUT_S)
    finally:
        query.stop()
