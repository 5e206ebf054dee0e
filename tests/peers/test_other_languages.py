"""Clients in other languages with a Headwater broker: Kafka Streams, franz-go (Go), kafkajs (Node).

Each produces, also in transactions of which one is aborted, consumes in a group and commits. A
client whose tools or packages are missing is skipped by name.
"""

import shutil
import uuid
from pathlib import Path

import pytest

from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.peers.apache_kafka import java
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.jars import KAFKA_STREAMS
from tests.peers.packages import (
    PROGRAMS,
    franz_go_absence,
    kafkajs_absence,
    run_franz_go,
    run_kafkajs,
)
from tests.peers.processes import end, start_until

RECORDS = 50


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:10]}"


def expected(client: str) -> list[str]:
    return sorted(f"value {number} {client}" for number in range(RECORDS))


def group_lag(servers: str, topic: str) -> int:
    """The lag of a group."""
    with (
        Admin(bootstrap_servers=servers) as admin,
        Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer,
    ):
        committed = admin.list_group_offsets(f"group-{topic}")
        ends = consumer.end_offsets(list(committed))
        # The last marker of a transaction may lie behind the last record.
        return sum(max(ends[each] - committed[each].offset - 1, 0) for each in committed)


@pytest.mark.skipif(kafkajs_absence() is not None, reason=str(kafkajs_absence()))
def test_kafkajs_writes_reads_and_commits(headwater: HeadwaterBroker, topic: str) -> None:
    told = run_kafkajs(headwater.bootstrap_servers, topic)
    assert sorted(told.splitlines()) == expected("kafkajs")
    assert group_lag(headwater.bootstrap_servers, topic) == 0


@pytest.mark.skipif(franz_go_absence() is not None, reason=str(franz_go_absence()))
def test_franz_go_writes_reads_and_commits(
    headwater: HeadwaterBroker, topic: str, tmp_path: Path
) -> None:
    told = run_franz_go(tmp_path, headwater.bootstrap_servers, topic)
    assert sorted(told.splitlines()) == expected("franz-go")
    assert group_lag(headwater.bootstrap_servers, topic) == 0


@pytest.mark.skipif(KAFKA_STREAMS.absence() is not None, reason=str(KAFKA_STREAMS.absence()))
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is only a JRE, and no JDK")
def test_kafka_streams_counts_words_exactly_once(
    headwater: HeadwaterBroker, topic: str, tmp_path: Path
) -> None:
    servers, counts = headwater.bootstrap_servers, f"{topic}-counts"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name=each, partitions=2) for each in (topic, counts)])
    with Producer(bootstrap_servers=servers) as producer:
        for line in ("to be or not", "to be", "that is the question"):
            producer.send(topic, line.encode())
    program = [*java(KAFKA_STREAMS), str(PROGRAMS / "WordCount.java")]
    command = [*program, servers, topic, counts, str(tmp_path / "state")]
    counting = start_until(command, lambda line: "state RUNNING" in line, tmp_path / "streams.log")
    wanted = {"to": 2, "be": 2, "or": 1, "not": 1, "that": 1, "is": 1, "the": 1, "question": 1}
    try:
        assert counted(servers, counts, wanted) == wanted
    finally:
        end(counting)


def counted(servers: str, topic: str, wanted: dict[str, int]) -> dict[str, int]:
    """The last count of each word."""
    found: dict[str, int] = {}
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, number) for number in range(2)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        while sum(found.values()) < sum(wanted.values()):
            for record in consumer.poll(1.0):
                assert record.key is not None
                assert record.value is not None
                found[record.key.decode()] = int(record.value)
    return found
