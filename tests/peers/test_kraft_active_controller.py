"""Brokers of Apache Kafka are served by Headwater's KRaft controllers.

Kafka's own brokers, tools and clients judge registrations, heartbeats, elections and all requests
that change metadata.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer

from tests.peers.kraft_cluster import CLUSTER_ID, KraftCluster

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
QUORUM = f"{TOOLS}.MetadataQuorumCommand"
FEATURES = f"{TOOLS}.FeatureCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftCluster]:
    """Three controllers of ours, three brokers of Kafka."""
    folder = tmp_path_factory.mktemp("cluster")
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {
        "authorizer.class.name": authorizer,
        "super.users": "User:ANONYMOUS",
    }
    with KraftCluster(folder, controllers=3, brokers=3, settings=settings) as running:
        yield running


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other processes do; each try takes a while by itself."""
    deadline = monotonic() + DEADLINE_S
    while not condition():
        assert monotonic() < deadline, "it did not happen within a minute"


class Described:
    """What `kafka-topics --describe` prints of a partition."""

    def __init__(self, line: str) -> None:
        found = dict(re.findall(r"(\w+): ?([^\t]*)", line))
        self.leader = found["Leader"]
        self.replicas = [int(each) for each in found["Replicas"].split(",")]
        self.isr = sorted(int(each) for each in found["Isr"].split(",") if each)


def describe(cluster: KraftCluster, topic: str) -> list[Described]:
    text = cluster.tool(TOPICS, "--describe", "--topic", topic)
    return [Described(line) for line in text.splitlines() if "\tPartition: " in line]


def create(cluster: KraftCluster, topic: str, *, replicas: int = 3, partitions: int = 3) -> None:
    cluster.tool(
        TOPICS,
        *("--create", "--topic", topic),
        *("--partitions", str(partitions), "--replication-factor", str(replicas)),
    )


def produce(cluster: KraftCluster, topic: str, values: range) -> None:
    """Send records and require that all are acknowledged."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "enable.idempotence": True}
    )
    errors: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            errors.append(error)

    for value in values:
        producer.produce(topic, str(value).encode(), on_delivery=delivered)
    assert producer.flush(DEADLINE_S) == 0
    assert errors == []


def consume(cluster: KraftCluster, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"readers-of-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    values: list[int] = []
    deadline = monotonic() + DEADLINE_S
    try:
        while len(values) < count:
            assert monotonic() < deadline, f"{len(values)} of {count} records arrived"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.append(int(message.value() or b""))
    finally:
        consumer.close()
    return sorted(values)


def active_controller(cluster: KraftCluster) -> int:
    text = cluster.controller_tool(QUORUM, "describe", "--status")
    found = re.search(r"LeaderId:\s+(\d+)", text)
    assert found is not None, text
    return int(found[1])


def test_one_controller_serves_one_broker(tmp_path: Path) -> None:
    with KraftCluster(tmp_path, controllers=1, brokers=1) as cluster:
        create(cluster, "orders", replicas=1)
        produce(cluster, "orders", range(10))
        assert consume(cluster, "orders", 10) == list(range(10))
        # A clean stop, and a start with the same directory.
        cluster.stop(10)
        cluster.start_brokers([10])
        until(lambda: [each.leader for each in describe(cluster, "orders")] == ["10"] * 3)
        produce(cluster, "orders", range(10, 20))


def test_brokers_register_are_unfenced_and_observe_the_quorum(cluster: KraftCluster) -> None:
    text = cluster.tool(QUORUM, "describe", "--replication")
    roles = {line.split()[0]: line.split()[-1] for line in text.splitlines()[1:] if line.strip()}
    assert sorted(roles) == ["0", "1", "10", "11", "12", "2"]
    assert {roles[each] for each in ("10", "11", "12")} == {"Observer"}
    create(cluster, "first")
    partitions = describe(cluster, "first")
    assert {each.leader for each in partitions} == {"10", "11", "12"}
    assert all(each.isr == [10, 11, 12] for each in partitions)


def test_clients_produce_and_consume(cluster: KraftCluster) -> None:
    create(cluster, "orders")
    produce(cluster, "orders", range(300))
    assert consume(cluster, "orders", 300) == list(range(300))


def test_features_are_described_by_controllers_and_brokers(cluster: KraftCluster) -> None:
    for text in (
        cluster.controller_tool(FEATURES, "describe"),
        cluster.tool(FEATURES, "describe"),
    ):
        levels = dict(re.findall(r"Feature: (\S+)\t.*FinalizedVersionLevel: (\S+)\t", text))
        levels.pop("share.version", None)
        assert levels == {
            "eligible.leader.replicas.version": "1",
            "group.version": "1",
            "kraft.version": "1",
            "metadata.version": "4.1-IV1",
            "transaction.version": "2",
        }
    changed = cluster.tool(FEATURES, "downgrade", "--feature", "transaction.version=1")
    assert "transaction.version was downgraded to 1" in changed
    until(
        lambda: (
            "transaction.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 2"
            "\tFinalizedVersionLevel: 1" in cluster.tool(FEATURES, "describe")
        )
    )
    cluster.tool(FEATURES, "upgrade", "--feature", "transaction.version=2")


def test_configs_quotas_and_credentials_are_altered(cluster: KraftCluster) -> None:
    create(cluster, "configured")

    def alter(*arguments: str) -> None:
        cluster.tool(CONFIGS, "--alter", *arguments)

    def described(*arguments: str) -> str:
        return cluster.tool(CONFIGS, "--describe", *arguments)

    topic = ("--entity-type", "topics", "--entity-name", "configured")
    alter(*topic, "--add-config", "retention.ms=60000,cleanup.policy=[compact,delete]")
    assert "retention.ms=60000" in described(*topic)
    alter(*topic, "--delete-config", "retention.ms")
    assert "retention.ms=60000" not in described(*topic)
    broker = ("--entity-type", "brokers", "--entity-name", "10")
    alter(*broker, "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in described(*broker)
    everyone = ("--entity-type", "brokers", "--entity-default")
    alter(*everyone, "--add-config", "log.cleaner.backoff.ms=14000")
    assert "log.cleaner.backoff.ms=14000" in described(*everyone)
    user = ("--entity-type", "users", "--entity-name", "alice")
    alter(*user, "--add-config", "producer_byte_rate=1048576")
    alter(*user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=alice-secret]")
    text = described(*user)
    assert "producer_byte_rate=1048576" in text
    assert "SCRAM-SHA-256=iterations=8192" in text


def test_acls_are_created_listed_and_deleted(cluster: KraftCluster) -> None:
    binding = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    cluster.tool(ACLS, "--add", *binding)
    listed = cluster.tool(ACLS, "--list", "--topic", "orders")
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed
    cluster.tool(ACLS, "--remove", "--force", *binding)
    until(lambda: "User:alice" not in cluster.tool(ACLS, "--list", "--topic", "orders"))


def test_partitions_are_added_reassigned_and_elected(cluster: KraftCluster, tmp_path: Path) -> None:
    create(cluster, "moving", replicas=1, partitions=1)
    produce(cluster, "moving", range(50))
    cluster.tool(TOPICS, "--alter", "--topic", "moving", "--partitions", "2")
    assert len(describe(cluster, "moving")) == 2
    before = describe(cluster, "moving")[0].replicas
    target = [each for each in cluster.broker_ids if each not in before]
    plan = tmp_path / "plan.json"
    entry = {"topic": "moving", "partition": 0, "replicas": target}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    tool = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    cluster.tool(tool, "--reassignment-json-file", str(plan), "--execute")
    until(
        lambda: (
            "is completed" in cluster.tool(tool, "--reassignment-json-file", str(plan), "--verify")
        )
    )
    partition = describe(cluster, "moving")[0]
    assert partition.replicas == target
    assert partition.isr == sorted(target)
    assert consume(cluster, "moving", 50) == list(range(50))
    cluster.tool(
        f"{TOOLS}.LeaderElectionCommand",
        *("--election-type", "preferred", "--all-topic-partitions"),
    )
    assert describe(cluster, "moving")[0].leader == str(target[0])


def test_a_topic_is_deleted_and_created_again(cluster: KraftCluster) -> None:
    for _ in range(2):
        create(cluster, "short-lived")
        produce(cluster, "short-lived", range(3))
        cluster.tool(TOPICS, "--delete", "--topic", "short-lived")
        until(lambda: "short-lived" not in cluster.tool(TOPICS, "--list"))


def test_leaders_move_when_a_broker_is_killed(cluster: KraftCluster) -> None:
    create(cluster, "survivors")
    produce(cluster, "survivors", range(100))
    cluster.kill(10)
    produce(cluster, "survivors", range(100, 200))
    until(lambda: all(each.isr == [11, 12] for each in describe(cluster, "survivors")))
    assert {each.leader for each in describe(cluster, "survivors")} <= {"11", "12"}
    cluster.start_brokers([10])
    until(lambda: all(each.isr == [10, 11, 12] for each in describe(cluster, "survivors")))
    assert consume(cluster, "survivors", 200) == list(range(200))


def test_a_broker_is_paused_fenced_and_unfenced(cluster: KraftCluster) -> None:
    create(cluster, "paused")
    with cluster.paused(11):
        until(lambda: all(each.isr == [10, 12] for each in describe(cluster, "paused")))
        produce(cluster, "paused", range(10))
    until(lambda: all(each.isr == [10, 11, 12] for each in describe(cluster, "paused")))


def test_a_broker_stops_after_its_leaders_have_moved(cluster: KraftCluster) -> None:
    create(cluster, "stopping")
    cluster.stop(12)
    partitions = describe(cluster, "stopping")
    assert {each.leader for each in partitions} == {"10", "11"}
    assert all(each.isr == [10, 11] for each in partitions)
    assert "controlled-shutdown" in cluster.log_of(active_controller(cluster))
    cluster.start_brokers([12])
    until(lambda: all(each.isr == [10, 11, 12] for each in describe(cluster, "stopping")))


def test_another_controller_takes_over_when_the_active_one_is_killed(
    cluster: KraftCluster,
) -> None:
    create(cluster, "before-failover")
    killed = active_controller(cluster)
    cluster.kill(killed)
    create(cluster, "after-failover")
    assert active_controller(cluster) != killed
    produce(cluster, "after-failover", range(10))
    assert all(each.isr == [10, 11, 12] for each in describe(cluster, "before-failover"))
    cluster.start_controller(killed)
    # The logs of all controllers become the same.
    create(cluster, "last")
    until(lambda: len({cluster.metadata_log(number) for number in range(3)}) == 1)


def test_a_broker_that_will_not_return_is_unregistered(cluster: KraftCluster) -> None:
    assert cluster.cluster_tool("cluster-id").strip() == f"Cluster ID: {CLUSTER_ID}"
    cluster.stop(12)
    said = cluster.cluster_tool("unregister", "--id", "12")
    assert "Broker 12 is no longer registered." in said
    endpoints = cluster.cluster_tool("list-endpoints").splitlines()[1:]
    assert sorted(line.split()[0] for line in endpoints if line.strip()) == ["10", "11"]
    # It may come back: that is a new registration.
    cluster.start_brokers([12])
    create(cluster, "with-all-again")
