"""The same queries with Spark's Kafka connector and with Headwater's: rows, schema, offsets.

Each runs on Apache Kafka and on Headwater, so that each connector is also tested with the other
system.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from headwater.client import Admin, Producer, TopicPartition
from tests.peers.spark_sides import (
    OURS,
    THEIRS,
    Options,
    SparkSides,
    offsets,
    refuses,
    timestamp_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 60


class Filled(NamedTuple):
    """A broker with two topics that tests only read."""

    sides: SparkSides
    topic: str
    other: str


@pytest.fixture(scope="module", params=["headwater", "apache_kafka"])
def filled(request: pytest.FixtureRequest, spark_with_connector: "SparkSession") -> Filled:
    broker = request.getfixturevalue(request.param)
    sides = SparkSides(spark_with_connector, broker.bootstrap_servers)
    topic, other = sides.new_topic(), sides.new_topic()
    sides.fill(topic, 0, RECORDS)
    sides.fill(other, 100, 20)
    return Filled(sides, topic, other)


Question = Callable[[str, str], Options]

# Of a topic and another one. Of sixty records the first partition has fifty, the second ten.
BATCHES: dict[str, Question] = {
    "everything": lambda t, _: {"subscribe": t},
    "two topics": lambda t, o: {"subscribe": f"{t}, {o}"},
    "a pattern": lambda t, o: {"subscribePattern": f"{t[:-1]}.|{o}"},
    "partitions": lambda t, o: {"assign": json.dumps({t: [1], o: [0, 1]})},
    "headers": lambda t, _: {"subscribe": t, "includeHeaders": "true"},
    "from offsets to offsets": lambda t, _: {
        "subscribe": t,
        "startingOffsets": offsets(t, 4, -2),
        "endingOffsets": offsets(t, 30, -1),
    },
    "to the end": lambda t, _: {"subscribe": t, "endingOffsets": "latest"},
    "from a time to a time": lambda t, _: {
        "subscribe": t,
        "startingTimestamp": str(timestamp_of(10)),
        "endingTimestamp": str(timestamp_of(40) + 1),
    },
    "from times to times": lambda t, _: {
        "subscribe": t,
        "startingOffsetsByTimestamp": offsets(t, timestamp_of(5), timestamp_of(20)),
        "endingOffsetsByTimestamp": offsets(t, timestamp_of(50), timestamp_of(99)),
    },
    "from a time that is over in one partition": lambda t, _: {
        "subscribe": t,
        "startingTimestamp": str(timestamp_of(58)),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "time wins over offsets": lambda t, _: {
        "subscribe": t,
        "startingTimestamp": str(timestamp_of(30)),
        "startingOffsets": offsets(t, 0, 0),
    },
    "at least so many tasks": lambda t, o: {"subscribe": f"{t},{o}", "minPartitions": "7"},
    # Theirs forgets this limit where an end is not given as a number.
    "at most so many records in a task": lambda t, _: {
        "subscribe": t,
        "startingOffsets": offsets(t, 0, 0),
        "endingOffsets": offsets(t, 50, 10),
        "maxRecordsPerPartition": "8",
    },
    "both": lambda t, _: {"subscribe": t, "minPartitions": "9", "maxRecordsPerPartition": "20"},
    "groups": lambda t, _: {
        "subscribe": t,
        "groupIdPrefix": "mine",
        "kafkaConsumer.pollTimeoutMs": "60000",
        "fetchOffset.numRetries": "5",
        "fetchOffset.retryIntervalMs": "20",
        "failOnDataLoss": "false",
    },
    "a group": lambda t, _: {"subscribe": t, "kafka.group.id": "forced"},
    "a client's settings": lambda t, _: {
        "subscribe": t,
        "kafka.max.poll.records": "3",
        "kafka.fetch.max.wait.ms": "10",
        "kafka.client.id": "spark",
        "kafka.isolation.level": "read_committed",
    },
}


@pytest.mark.parametrize("question", BATCHES)
def test_batch_query_gives_the_same_rows_in_the_same_tasks(filled: Filled, question: str) -> None:
    options = BATCHES[question](filled.topic, filled.other)
    theirs = filled.sides.tasks(THEIRS, options)
    assert theirs, "the question proves nothing"
    assert filled.sides.tasks(OURS, options) == theirs


@pytest.mark.parametrize("headers", ["true", "false"])
def test_rows_have_the_same_schema(filled: Filled, headers: str) -> None:
    options = {"subscribe": filled.topic, "includeHeaders": headers}
    assert filled.sides.schema(OURS, options) == filled.sides.schema(THEIRS, options)


STREAMS: dict[str, Question] = {
    "everything": lambda t, _: {"subscribe": t, "startingOffsets": "earliest"},
    "by default what comes later": lambda t, _: {"subscribe": t},
    "headers of a pattern": lambda t, o: {
        "subscribePattern": f"{t}|{o[:-2]}..",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    },
    "at most so many": lambda t, _: {
        "subscribe": t,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "23",
    },
    "fewer than partitions": lambda t, o: {
        "subscribe": f"{t},{o}",
        "startingOffsets": offsets(t, 40, 5)[:-1] + ", " + offsets(o, -2, -1)[1:],
        "maxOffsetsPerTrigger": "3",
    },
    "partitions from offsets": lambda t, _: {
        "assign": json.dumps({t: [0]}),
        "startingOffsets": json.dumps({t: {"0": 20}}),
        "minPartitions": "3",
    },
    "from a time": lambda t, _: {
        "subscribe": t,
        "startingTimestamp": str(timestamp_of(33)),
        "maxOffsetsPerTrigger": "10",
    },
    "from times": lambda t, _: {
        "subscribe": t,
        "startingOffsetsByTimestamp": offsets(t, timestamp_of(50), timestamp_of(1)),
    },
    "at least so many": lambda t, _: {
        "subscribe": t,
        "startingOffsets": "earliest",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "1s",
    },
}


@pytest.mark.parametrize("question", STREAMS)
def test_stream_gives_the_same_rows_in_the_same_batches(
    filled: Filled, tmp_path: Path, question: str
) -> None:
    options = STREAMS[question](filled.topic, filled.other)
    theirs = filled.sides.stream(THEIRS, options, tmp_path / "theirs")
    assert filled.sides.stream(OURS, options, tmp_path / "ours") == theirs


def test_available_now_reads_fewer_rows_than_the_minimum(filled: Filled, tmp_path: Path) -> None:
    """Spark's leaves it for later; Headwater's keeps the promise of `availableNow`."""
    options = {
        "subscribe": filled.topic,
        "startingOffsets": "earliest",
        "minOffsetsPerTrigger": "20",
        "maxOffsetsPerTrigger": "25",
    }
    theirs = filled.sides.stream(THEIRS, options, tmp_path / "theirs")
    ours = filled.sides.stream(OURS, options, tmp_path / "ours")
    assert ours.ends[: len(theirs.ends)] == theirs.ends
    assert (len(theirs.rows), len(ours.rows)) == (48, RECORDS)


REFUSED: dict[str, Question] = {
    "nothing is subscribed": lambda _, __: {},
    "two ways to subscribe": lambda t, _: {"subscribe": t, "subscribePattern": t},
    "an empty name": lambda _, __: {"subscribe": ""},
    "a topic that is not there": lambda t, _: {"subscribe": f"{t}-not"},
    "a batch from the end": lambda t, _: {"subscribe": t, "startingOffsets": "latest"},
    "a batch from an end": lambda t, _: {"subscribe": t, "startingOffsets": offsets(t, -1, 0)},
    "a batch to the start": lambda t, _: {"subscribe": t, "endingOffsets": "earliest"},
    "a partition is missing": lambda t, _: {"subscribe": t, "startingOffsets": offsets(t, 0)},
    "a partition too many": lambda t, _: {"subscribe": t, "startingOffsets": offsets(t, 0, 0, 0)},
    "no JSON": lambda t, _: {"subscribe": t, "startingOffsets": "now"},
    "no record is so young": lambda t, _: {
        "subscribe": t,
        "startingTimestamp": str(timestamp_of(1000)),
    },
    "offsets that cross": lambda t, _: {
        "subscribe": t,
        "startingOffsets": offsets(t, 9, 0),
        "endingOffsets": offsets(t, 8, 5),
    },
    "no whole number": lambda t, _: {"subscribe": t, "minPartitions": "many"},
    "no task at all": lambda t, _: {"subscribe": t, "minPartitions": "0"},
    "a reset": lambda t, _: {"subscribe": t, "kafka.auto.offset.reset": "latest"},
    "own commits": lambda t, _: {"subscribe": t, "kafka.enable.auto.commit": "true"},
    "a deserializer": lambda t, _: {"subscribe": t, "kafka.key.deserializer": "x"},
    "interceptors": lambda t, _: {"subscribe": t, "kafka.interceptor.classes": "x"},
    "another strategy": lambda t, _: {
        "subscribe": t,
        "startingOffsetsByTimestampStrategy": "earliest",
    },
}


@pytest.mark.parametrize("question", REFUSED)
def test_both_reject_the_same_batch_queries(filled: Filled, question: str) -> None:
    options = REFUSED[question](filled.topic, filled.other)
    assert refuses(filled.sides.rows, THEIRS, options)
    assert refuses(filled.sides.rows, OURS, options)


REFUSED_STREAMS: dict[str, Options] = {
    "an end": {"endingOffsets": "latest"},
    "ends by time": {"endingOffsetsByTimestamp": "{}"},
    "a minimum above the maximum": {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
    "no delay": {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"},
}


@pytest.mark.parametrize("question", REFUSED_STREAMS)
def test_both_reject_the_same_streams(filled: Filled, tmp_path: Path, question: str) -> None:
    options = {"subscribe": filled.topic, **REFUSED_STREAMS[question]}
    for format_name in (THEIRS, OURS):
        folder = tmp_path / format_name
        assert refuses(filled.sides.stream, format_name, options, folder), format_name


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_leave_the_same_gaps(filled: Filled, level: str) -> None:
    sides, topic = filled.sides, filled.sides.new_topic(1)
    with Producer(
        bootstrap_servers=sides.servers, transactional_id=topic, compression_type="zstd"
    ) as producer:
        producer.init_transactions()
        for turn, outcome in enumerate(("commit", "abort", "commit")):
            producer.begin_transaction()
            for number in range(3):
                producer.send(topic, f"{turn} {number}".encode())
            producer.flush()
            getattr(producer, f"{outcome}_transaction")()
    for more in ({}, {"minPartitions": "4"}, {"startingOffsets": offsets(topic, 3)}):
        options = {"subscribe": topic, "kafka.isolation.level": level, **more}
        theirs = sides.rows(THEIRS, options)
        assert theirs
        assert sides.rows(OURS, options) == theirs


@pytest.mark.parametrize("is_strict", ["true", "false"])
def test_deleted_records_stop_both_or_none(filled: Filled, tmp_path: Path, is_strict: str) -> None:
    sides, topic = filled.sides, filled.sides.new_topic(1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": is_strict}
    sides.fill(topic, 0, 10, partitions=1)
    for name in (THEIRS, OURS):
        sides.stream(name, options, tmp_path / name)
    sides.fill(topic, 10, 10, partitions=1)
    with Admin(bootstrap_servers=sides.servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 15})
    if is_strict == "true":
        for name in (THEIRS, OURS):
            assert refuses(sides.stream, name, options, tmp_path / name), name
    else:
        theirs = sides.stream(THEIRS, options, tmp_path / THEIRS)
        assert len(theirs.rows) == 15
        assert sides.stream(OURS, options, tmp_path / OURS) == theirs


@pytest.mark.parametrize(("first", "second"), [(THEIRS, OURS), (OURS, THEIRS)])
def test_query_continues_from_the_checkpoint_of_the_other(
    filled: Filled, tmp_path: Path, first: str, second: str
) -> None:
    sides, topic = filled.sides, filled.sides.new_topic()
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    sides.fill(topic, 0, 20)
    sides.stream(first, options, tmp_path)
    sides.fill(topic, 20, 20)
    sides.stream(second, options, tmp_path)
    sides.fill(topic, 40, 5)
    found = sides.stream(first, options, tmp_path)
    assert found.rows == sides.rows(THEIRS, {"subscribe": topic})
