"""Apache Kafka's command line tools, unmodified, with a Headwater broker."""

import json
import re
from pathlib import Path

import pytest

from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.peers.apache_kafka import run_class
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.jars import KAFKA_4_1
from tests.peers.lab import EARLIEST, LATEST, Lab
from tests.peers.raw_client import RawClient

TOOLS = "org.apache.kafka.tools"


def run(headwater: HeadwaterBroker, name: str, *arguments: str, given: str = "") -> str:
    servers = ("--bootstrap-server", headwater.bootstrap_servers)
    return run_class(KAFKA_4_1, name, *servers, *arguments, given=given)


def create(headwater: HeadwaterBroker, topic: str) -> None:
    """Without a tool, since each one starts a JVM."""
    lab = Lab(topic, headwater.bootstrap_servers)
    lab.topic()
    lab.client.close()


def offset(headwater: HeadwaterBroker, topic: str, timestamp: int) -> int:
    place = ListOffsetsPartition(timestamp=timestamp)
    asked = ListOffsetsTopic(name=topic, partitions=(place,))
    with RawClient(headwater.bootstrap_servers) as client:
        answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=(asked,)), 10)
    assert isinstance(answer, ListOffsetsResponse)
    return answer.topics[0].partitions[0].offset


def test_kafka_topics_creates_lists_describes_and_deletes(headwater: HeadwaterBroker) -> None:
    topics = f"{TOOLS}.TopicCommand"
    options = ("--partitions", "2", "--config", "retention.ms=5000")
    made = run(headwater, topics, "--create", "--topic", "tools-topics", *options)
    assert "Created topic tools-topics." in made
    assert "tools-topics" in run(headwater, topics, "--list").splitlines()
    described = run(headwater, topics, "--describe", "--topic", "tools-topics")
    assert re.search(
        r"PartitionCount: 2\s+ReplicationFactor: 1\s+Configs: .*retention.ms=5000", described
    )
    assert re.search(r"Partition: 1\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)
    run(headwater, topics, "--alter", "--topic", "tools-topics", "--partitions", "3")
    described = run(headwater, topics, "--describe", "--topic", "tools-topics")
    assert "PartitionCount: 3" in described
    run(headwater, topics, "--delete", "--topic", "tools-topics")
    assert "tools-topics" not in run(headwater, topics, "--list").splitlines()


def test_kafka_configs_alters_and_describes(headwater: HeadwaterBroker) -> None:
    create(headwater, "tools-configs")
    of_topic = ("--entity-type", "topics", "--entity-name", "tools-configs")
    configs = "kafka.admin.ConfigCommand"
    run(headwater, configs, *of_topic, "--alter", "--add-config", "cleanup.policy=[compact,delete]")
    described = run(headwater, configs, *of_topic, "--describe")
    assert "cleanup.policy=compact,delete" in described
    run(headwater, configs, *of_topic, "--alter", "--delete-config", "cleanup.policy")
    assert "cleanup.policy" not in run(headwater, configs, *of_topic, "--describe")


def test_kafka_configs_describes_log_levels(headwater: HeadwaterBroker) -> None:
    of_loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    configs = "kafka.admin.ConfigCommand"
    run(headwater, configs, *of_loggers, "--alter", "--add-config", "headwater.network=DEBUG")
    assert "headwater.network=DEBUG" in run(headwater, configs, *of_loggers, "--describe")
    run(headwater, configs, *of_loggers, "--alter", "--delete-config", "headwater.network")
    assert "headwater.network=DEBUG" not in run(headwater, configs, *of_loggers, "--describe")


def test_console_producer_and_consumer_transfer_records(headwater: HeadwaterBroker) -> None:
    create(headwater, "tools-console")
    producer = f"{TOOLS}.ConsoleProducer"
    run(headwater, producer, "--topic", "tools-console", given="one\ntwo\nthree\n")
    consumer = f"{TOOLS}.consumer.ConsoleConsumer"
    arguments = ("--topic", "tools-console", "--partition", "0", "--offset", "earliest")
    assert run(headwater, consumer, *arguments, "--max-messages", "3").splitlines() == [
        "one",
        "two",
        "three",
    ]
    offsets = run(headwater, f"{TOOLS}.GetOffsetShell", "--topic", "tools-console")
    assert offsets.splitlines() == ["tools-console:0:3"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_performance_producer_loses_no_record(headwater: HeadwaterBroker, codec: str) -> None:
    topic = f"tools-performance-{codec}"
    create(headwater, topic)
    run_class(
        KAFKA_4_1,
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "100", "--throughput", "-1"),
        "--producer-props",
        f"bootstrap.servers={headwater.bootstrap_servers}",
        f"compression.type={codec}",
        "acks=all",
    )
    assert offset(headwater, topic, LATEST) == 2000


def test_kafka_delete_records_moves_the_log_start_offset(
    headwater: HeadwaterBroker, tmp_path: Path
) -> None:
    create(headwater, "tools-deletion")
    run(headwater, f"{TOOLS}.ConsoleProducer", "--topic", "tools-deletion", given="a\nb\nc\n")
    wanted = {"topic": "tools-deletion", "partition": 0, "offset": 2}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    run(headwater, f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(file))
    assert offset(headwater, "tools-deletion", EARLIEST) == 2


def test_kafka_log_dirs_and_broker_api_versions_work(headwater: HeadwaterBroker) -> None:
    create(headwater, "tools-folders")
    described = run(
        headwater, f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", "tools-folders"
    )
    assert '"partition":"tools-folders-0"' in described
    versions = run(headwater, f"{TOOLS}.BrokerApiVersionsCommand")
    assert "Produce(0): 0 to 13 [usable: 13]" in versions
