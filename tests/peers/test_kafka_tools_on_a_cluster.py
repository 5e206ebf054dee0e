"""Apache Kafka's command line tools, unmodified, with three Headwater brokers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import QUOTA_DEFAULT, Admin, QuotaEntity
from headwater.testing import EmbeddedCluster
from tests.cluster.cluster_clients import await_true
from tests.peers.apache_kafka import run_class
from tests.peers.jars import KAFKA_4_1

TOOLS = "org.apache.kafka.tools"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
TOPICS = f"{TOOLS}.TopicCommand"
RECORDS = 50


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    settings = {"default.replication.factor": 3, "offsets.topic.replication.factor": 3}
    with EmbeddedCluster(3, settings, timeout_s=180) as cluster:
        yield cluster.bootstrap_servers


def run(servers: str, name: str, *arguments: str) -> str:
    return run_class(KAFKA_4_1, name, "--bootstrap-server", servers, *arguments)


def create(servers: str, topic: str) -> None:
    run(
        servers,
        TOPICS,
        *("--create", "--topic", topic, "--replica-assignment", "0:1,1:2"),
    )


def events(printed: str, name: str) -> list[dict[str, object]]:
    """Events of a verifiable client, one JSON object per line."""
    told = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return [each for each in told if each["name"] == name]


def test_verifiable_clients_and_performance_consumer_lose_no_record(servers: str) -> None:
    topic = "verifiable"
    create(servers, topic)
    count = ("--max-messages", str(RECORDS))
    sent = run(servers, f"{TOOLS}.VerifiableProducer", "--topic", topic, *count)
    assert len(events(sent, "producer_send_success")) == RECORDS
    assert events(sent, "producer_send_error") == []
    from_start = ("--group-id", "verifiers", "--reset-policy", "earliest")
    read = run(servers, f"{TOOLS}.VerifiableConsumer", "--topic", topic, *from_start, *count)
    assert sum(int(str(each["count"])) for each in events(read, "records_consumed")) == RECORDS
    assert all(each["success"] for each in events(read, "offsets_committed"))
    groups = run(servers, f"{TOOLS}.GroupsCommand", "--list")
    assert re.search(r"^verifiers +Classic +consumer", groups, re.MULTILINE)
    performed = run(
        servers,
        f"{TOOLS}.ConsumerPerformance",
        *("--topic", topic, "--messages", str(RECORDS)),
    )
    assert performed.splitlines()[-1].split(",")[4].strip() == str(RECORDS)


def test_kafka_configs_sets_quotas_on_every_broker(servers: str) -> None:
    configs = "kafka.admin.ConfigCommand"
    whose = ("--entity-type", "users", "--entity-name", "alice b", "--entity-type", "clients")
    every_client = (*whose, "--entity-default")
    rates = "producer_byte_rate=1048576,request_percentage=12.5"
    run(servers, configs, *every_client, "--alter", "--add-config", rates)
    described = run(servers, configs, *every_client, "--describe")
    assert "user-principal 'alice b', the default client-id" in described
    assert "producer_byte_rate=1048576.0" in described
    ip = ("--entity-type", "ips", "--entity-name", "203.0.113.7")
    run(servers, configs, *ip, "--alter", "--add-config", "connection_creation_rate=50")
    client = QuotaEntity(user="alice b", client_id=QUOTA_DEFAULT)
    expected = {
        client: {"producer_byte_rate": 1048576.0, "request_percentage": 12.5},
        QuotaEntity(ip="203.0.113.7"): {"connection_creation_rate": 50.0},
    }
    for server in servers.split(","):
        with Admin(bootstrap_servers=server) as admin:
            await_true(lambda: admin.describe_client_quotas() == expected)
    run(servers, configs, *every_client, "--alter", "--delete-config", "request_percentage")
    with Admin(bootstrap_servers=servers) as admin:
        left = {"producer_byte_rate": 1048576.0}
        await_true(lambda: admin.describe_client_quotas(client) == {client: left})
        gone: dict[str, float | None] = {"connection_creation_rate": None}
        admin.alter_client_quotas(
            {client: {"producer_byte_rate": None}, QuotaEntity(ip="203.0.113.7"): gone}
        )


def test_reassignment_removes_its_throttle_afterwards(servers: str, tmp_path: Path) -> None:
    topic = "moving"
    create(servers, topic)
    wanted = [
        {"topic": topic, "partition": 0, "replicas": [2, 1]},
        {"topic": topic, "partition": 1, "replicas": [0, 2]},
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    file = ("--reassignment-json-file", str(plan))
    begun = run(servers, REASSIGN, "--execute", *file, "--throttle", "10000000")
    assert "Successfully started partition reassignments for moving-0,moving-1" in begun
    await_true(lambda: "No partition reassignments found." in run(servers, REASSIGN, "--list"))
    verified = run(servers, REASSIGN, "--verify", *file)
    assert verified.count("is completed.") == len(wanted)
    described = run(servers, TOPICS, "--describe", "--topic", topic)
    assert re.search(r"Partition: 0\s+Leader: \d\s+Replicas: 2,1", described)
    assert "throttled" not in described
    run(
        servers,
        f"{TOOLS}.LeaderElectionCommand",
        *("--election-type", "preferred", "--all-topic-partitions"),
    )
    described = run(servers, TOPICS, "--describe", "--topic", topic)
    assert re.search(r"Partition: 0\s+Leader: 2", described)
    assert re.search(r"Partition: 1\s+Leader: 0", described)
    assert run(servers, TOPICS, "--describe", "--under-replicated-partitions").strip() == ""


def test_generated_reassignment_uses_all_brokers(servers: str, tmp_path: Path) -> None:
    create(servers, "spread")
    named = tmp_path / "topics.json"
    named.write_text(json.dumps({"version": 1, "topics": [{"topic": "spread"}]}))
    brokers = ("--broker-list", "0,1,2")
    said = run(servers, REASSIGN, "--generate", "--topics-to-move-json-file", str(named), *brokers)
    proposed = json.loads(said.partition("Proposed partition reassignment configuration")[2])
    assert {each["topic"] for each in proposed["partitions"]} == {"spread"}
    assert len({node for each in proposed["partitions"] for node in each["replicas"]}) == 3


def test_cluster_endpoints_and_features_are_described(servers: str) -> None:
    cluster_tool = f"{TOOLS}.ClusterTool"
    told = run_class(KAFKA_4_1, cluster_tool, "cluster-id", "--bootstrap-server", servers)
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", told.strip())
    told = run_class(KAFKA_4_1, cluster_tool, "list-endpoints", "--bootstrap-server", servers)
    assert len(re.findall(r"^[012] +127\.0\.0\.1 +\d+ +\w+ +unfenced", told, re.MULTILINE)) == 3
    told = run(servers, f"{TOOLS}.FeatureCommand", "describe")
    assert re.search(r"transaction\.version.*FinalizedVersionLevel: 2", told)
    assert re.search(r"group\.version.*FinalizedVersionLevel: 1", told)
