"""Apache Kafka 3.9 and Headwater alternate on one ZooKeeper, each with the other's metadata."""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.client import QUOTA_DEFAULT, Admin, QuotaEntity
from headwater.testing.embedded_broker import EmbeddedBroker
from headwater.testing.embedded_cluster import EmbeddedZooKeeper
from tests.compat.foreign import load
from tests.peers.apache_kafka import java
from tests.peers.jars import KAFKA_3_9
from tests.peers.processes import end, free_port, start_until
from tests.zookeeper_server import real_zookeeper

# Its types are not among the names that it exports.
_confluent = load("confluent_kafka.admin")

NODE_ID = 5
TIMEOUT_S = 60

_LOG_TO_STANDARD_OUTPUT = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%m (%c)%n
"""


@contextmanager
def kafka_on(zookeeper: str, folder: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """A broker of Kafka in ZooKeeper mode, which also becomes the controller."""
    port = free_port()
    settings = {
        "broker.id": str(NODE_ID),
        "zookeeper.connect": zookeeper,
        # It is killed, and its registration must not stay for long.
        "zookeeper.session.timeout.ms": "3000",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / f"kafka-{uuid.uuid4().hex[:6]}"),
        "offsets.topic.replication.factor": "1",
        "log.cleaner.dedupe.buffer.size": "8000000",
        **(more or {}),
    }
    properties = folder / "kafka.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    logging = folder / "log4j.properties"
    logging.write_text(_LOG_TO_STANDARD_OUTPUT)
    command = java(KAFKA_3_9)
    command[1:1] = [
        f"-Dlog4j.configuration=file:{logging}",
        "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaServer=info",
    ]
    process = start_until(
        [*command, "kafka.Kafka", str(properties)],
        lambda line: f"[KafkaServer id={NODE_ID}] started" in line,
        folder / "kafka.log",
    )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        end(process)


@contextmanager
def headwater_on(
    zookeeper: str, data: Path, more: Mapping[str, str] | None = None
) -> Iterator[str]:
    broker = EmbeddedBroker(
        {
            "node.id": NODE_ID,
            "zookeeper.connect": zookeeper,
            "offsets.topic.replication.factor": 1,
            **(more or {}),
        },
        data_directory=data,
        timeout_s=TIMEOUT_S,
    )
    with broker:
        yield broker.bootstrap_servers
        broker.stop()


def retention_of(admin: AdminClient, topic: str) -> str:
    resource = _confluent.ConfigResource(_confluent.ResourceType.TOPIC, topic)
    (described,) = admin.describe_configs([resource]).values()
    return str(described.result(TIMEOUT_S)["retention.ms"].value)


def partitions_of(admin: AdminClient) -> dict[str, int]:
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def make(admin: AdminClient, name: str, partitions: int, retention_ms: str) -> None:
    topic = NewTopic(name, partitions, 1, config={"retention.ms": retention_ms})
    admin.create_topics([topic])[name].result(TIMEOUT_S)
    await_topic(admin, name, partitions)


def await_topic(admin: AdminClient, name: str, partitions: int | None) -> None:
    """A Kafka broker is ready before its controller has sent metadata."""
    until = time.monotonic() + TIMEOUT_S
    while partitions_of(admin).get(name) != partitions:
        assert time.monotonic() < until, partitions_of(admin)


APP = QuotaEntity(user="alice b~", client_id="app*")
ALL_OF_BOB = QuotaEntity(user="bob", client_id=QUOTA_DEFAULT)
DEFAULT_USER = QuotaEntity(user=QUOTA_DEFAULT)
ADDRESS = QuotaEntity(ip="203.0.113.7")


def limit(servers: str, changes: dict[QuotaEntity, dict[str, float | None]]) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_client_quotas(changes)


def await_quotas(servers: str, expected: dict[QuotaEntity, dict[str, float]]) -> None:
    until = time.monotonic() + TIMEOUT_S
    with Admin(bootstrap_servers=servers) as admin:
        while (found := admin.describe_client_quotas()) != expected:
            assert time.monotonic() < until, found


@pytest.mark.skipif(KAFKA_3_9.absence() is not None, reason="Kafka 3.9 is not there")
def test_topics_configs_and_quotas_are_exchanged_in_both_directions(tmp_path: Path) -> None:
    with real_zookeeper() as server:
        take_turns(server, tmp_path)


def take_turns(server: EmbeddedZooKeeper, folder: Path) -> None:
    connect = f"{server.connect}/shared/kafka"
    with headwater_on(connect, folder / "headwater") as servers:
        make(AdminClient({"bootstrap.servers": servers}), "ours", 3, "12345")
        limit(servers, {APP: {"producer_byte_rate": 5000}, DEFAULT_USER: {"request_percentage": 2}})
        limit(servers, {ADDRESS: {"connection_creation_rate": 7}})
    with kafka_on(connect, folder) as servers:
        admin = AdminClient({"bootstrap.servers": servers})
        await_quotas(
            servers,
            {
                APP: {"producer_byte_rate": 5000},
                DEFAULT_USER: {"request_percentage": 2},
                ADDRESS: {"connection_creation_rate": 7},
            },
        )
        limit(
            servers, {APP: {"consumer_byte_rate": 9000}, DEFAULT_USER: {"request_percentage": None}}
        )
        limit(servers, {ALL_OF_BOB: {"controller_mutation_rate": 1.5}})
        await_topic(admin, "ours", 3)
        assert retention_of(admin, "ours") == "12345"
        make(admin, "theirs", 2, "54321")
        admin.delete_topics(["ours"])["ours"].result(TIMEOUT_S)
        make(admin, "third", 1, "1")
    with headwater_on(connect, folder / "headwater") as servers:
        admin = AdminClient({"bootstrap.servers": servers})
        found = partitions_of(admin)
        assert {name: found.get(name) for name in ("theirs", "third")} == {"theirs": 2, "third": 1}
        assert "ours" not in found
        assert retention_of(admin, "theirs") == "54321"
        await_quotas(
            servers,
            {
                APP: {"producer_byte_rate": 5000, "consumer_byte_rate": 9000},
                ADDRESS: {"connection_creation_rate": 7},
                ALL_OF_BOB: {"controller_mutation_rate": 1.5},
            },
        )
