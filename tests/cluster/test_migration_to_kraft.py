"""A cluster with data moves from a real ZooKeeper to KRaft, its brokers stopped."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwater.cli.main import app
from headwater.client import (
    Acl,
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    Operation,
    PatternType,
    Permission,
    Producer,
    QuotaEntity,
    ResourceKind,
    ScramUpsertion,
    TopicPartition,
)
from headwater.common.settings.setting_types import Value
from headwater.metadata_store.raft.storage_formatter import random_uuid
from headwater.network.free_ports import free_ports
from headwater.network.system_clock import SystemRandom
from headwater.testing import EmbeddedBroker, EmbeddedCluster
from tests.cluster.cluster_clients import TIMEOUT_S, await_true
from tests.zookeeper_server import absence

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
SETTINGS: dict[str, Value] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 3,
}
ACL = Acl(
    resource_type=ResourceKind.TOPIC,
    resource_name="orders",
    pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)


@pytest.fixture(scope="module")
def old() -> Iterator[EmbeddedCluster]:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    with EmbeddedCluster(3, SETTINGS, zookeeper=True, timeout_s=TIMEOUT_S) as cluster:
        yield cluster


def fill(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [
                NewTopic(
                    name="orders",
                    partitions=3,
                    replication_factor=3,
                    configs={"retention.ms": "123456789"},
                ),
                NewTopic(name="gone", partitions=1, replication_factor=3),
            ]
        )
        admin.delete_topics(["gone"])
        admin.create_acls([ACL])
        admin.alter_user_scram_credentials([ScramUpsertion(user="alice", password="alice-secret")])
        admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000.0}})
        admin.alter_configs({ConfigResource.broker(): {"message.max.bytes": 999_999}})
    with Producer(bootstrap_servers=servers) as producer:
        sent = [producer.send("orders", str(number).encode()) for number in range(100)]
        for each in sent:
            each.result()
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 2})


def observed(servers: str) -> dict[str, object]:
    """What clients can see of the cluster, without brokers and leaders."""
    with Admin(bootstrap_servers=servers) as admin:
        topic = admin.describe_topics(["orders"])["orders"]
        resource = ConfigResource.topic("orders")
        broker = ConfigResource.broker()
        quotas = admin.describe_client_quotas()
        return {
            "cluster": admin.describe_cluster().cluster_id,
            "topics": sorted(admin.list_topics()),
            "id": topic.topic_id,
            "replicas": [each.replicas for each in topic.partitions],
            "config": admin.describe_configs([resource])[resource]["retention.ms"].value,
            "default": {
                name: each.value for name, each in admin.describe_configs([broker])[broker].items()
            },
            "acls": admin.describe_acls(Acl()),
            "users": admin.describe_user_scram_credentials(),
            "quotas": {str(entity): dict(values) for entity, values in quotas.items()},
            "offsets": admin.list_group_offsets("billing"),
        }


def values_in(servers: str) -> list[bytes]:
    with Consumer(
        bootstrap_servers=servers, group_id="reader", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        found: list[bytes] = []

        def has_all() -> bool:
            found.extend(each.value or b"" for each in consumer.poll(1))
            return len(found) >= 100

        await_true(has_all)
    return sorted(found, key=int)


def migrate(*words: str) -> Result:
    return CliRunner().invoke(app, ["cluster", "migrate-to-kraft", *words])


def test_stopped_cluster_moves_with_all_its_data_and_metadata(
    old: EmbeddedCluster, tmp_path: Path
) -> None:
    fill(old.bootstrap_servers)
    await_true(lambda: "gone" not in observed(old.bootstrap_servers)["topics"])  # type: ignore[operator]
    before = observed(old.bootstrap_servers)
    clients, controllers = free_ports(HOST, 3), free_ports(HOST, 3)
    voters = ",".join(
        f"{number}@{HOST}:{port}:{random_uuid(SystemRandom())}"
        for number, port in enumerate(controllers)
    )
    settings: list[dict[str, Value]] = [
        {
            **SETTINGS,
            "process.roles": "broker,controller",
            "node.id": number,
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controllers[number]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(
                f"{HOST}:{each}" for each in controllers
            ),
            "log.dirs": str(old.brokers[number].data_directory),
        }
        for number, port in enumerate(clients)
    ]
    words = ["--zookeeper", old.zookeeper.connect, "--initial-controllers", voters]
    for number, each in enumerate(settings):
        path = tmp_path / f"{number}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in each.items()))
        words += ["--config", str(path)]
    refused = migrate(*words)
    assert (refused.exit_code, refused.stderr) == (
        2,
        "headwater: brokers are running: 0, 1, 2; stop all brokers first\n",
    )
    for broker in reversed(old.brokers):
        broker.stop()
    shown = migrate(*words, "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "2 topics with 6 partitions, 1 ACLs" in shown.stdout
    assert not any((each.data_directory / "bootstrap.checkpoint").exists() for each in old.brokers)
    # Killed after a while, wherever it is then; the next run completes it.
    command = [sys.executable, "-m", "headwater", "cluster", "migrate-to-kraft", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        first = old.brokers[0].data_directory / "bootstrap.checkpoint"
        await_true(lambda: first.exists() or process.poll() is not None)
        process.kill()
    done = migrate(*words, "--json")
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["state"] for line in done.stdout.splitlines()] == ["migrated"] * 3
    old.zookeeper.close()

    nodes = [
        EmbeddedBroker(each, data_directory=broker.data_directory, timeout_s=TIMEOUT_S)
        for each, broker in zip(settings, old.brokers, strict=True)
    ]
    try:
        with ThreadPoolExecutor(3) as together:
            list(together.map(EmbeddedBroker.start, nodes))
        servers = ",".join(each.bootstrap_servers for each in nodes)
        assert observed(servers) == before
        assert values_in(servers) == [str(number).encode() for number in range(100)]
        with Producer(bootstrap_servers=servers) as producer:
            assert producer.send("orders", b"after").result().offset > 0
        again = migrate(*words)
        assert again.exit_code != 0
    finally:
        for node in nodes:
            node.close()
