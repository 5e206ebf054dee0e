"""TLS, SASL and ACLs on the controller listener of real processes."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.broker.broker_server.local_cluster import LocalCluster, local_cluster
from headwater.cli.main import app
from headwater.client import (
    Acl,
    Admin,
    Consumer,
    Operation,
    PatternType,
    Permission,
    Producer,
    ResourceKind,
)
from headwater.client.errors import (
    ClusterAuthorizationFailed,
    KafkaTimeout,
    SaslAuthenticationFailed,
    TopicAuthorizationFailed,
)
from headwater.common.settings.setting_types import Value
from headwater.network.free_ports import free_ports
from headwater.testing import EmbeddedBroker
from tests.certificates import Authority
from tests.cluster.cluster_clients import TIMEOUT_S, await_true

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
SECRET = "secret-of-the-nodes"
ALICE = "secret-of-alice"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass
class SecuredCluster:
    """Three nodes with both roles; only `node` and `alice` may connect."""

    folder: Path
    nodes: LocalCluster
    brokers: list[EmbeddedBroker]
    mechanism: str
    protocol: str
    ca: str

    @property
    def servers(self) -> str:
        return ",".join(each.bootstrap_servers for each in self.brokers)

    def login(self, user: str, password: str, **settings: object) -> dict[str, object]:
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
            "sasl.username": user,
            "sasl.password": password,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    @property
    def leader(self) -> str:
        """The address of the active controller."""
        with Admin(self.login("node", SECRET)) as admin:
            leader_id = admin.describe_metadata_quorum().leader_id
        (found,) = (each for each in self.nodes.voters if each.node_id == leader_id)
        return f"{found.host}:{found.port}"

    def controller_login(self, user: str, password: str) -> dict[str, object]:
        """Settings of a client that speaks to the active controller."""
        return {
            **self.login(user, password),
            "bootstrap.servers": self.leader,
            "security.protocol": self.protocol,
            **({"ssl.ca.location": self.ca} if self.protocol == "SASL_SSL" else {}),
        }


def settings_of(folder: Path, mechanism: str, protocol: str, password: str) -> dict[str, Value]:
    name = mechanism.lower()
    own = f'username="node" password="{password}"'
    users = f'user_node="{SECRET}" user_alice="{ALICE}"'
    jaas = (
        f"{PLAIN_MODULE} required {own} {users};"
        if mechanism == "PLAIN"
        else f"{SCRAM_MODULE} required {own};"
    )
    settings: dict[str, Value] = {
        "listener.security.protocol.map": f"BROKER:SASL_PLAINTEXT,CONTROLLER:{protocol}",
        "inter.broker.listener.name": "BROKER",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        f"listener.name.broker.{name}.sasl.jaas.config": jaas,
        f"listener.name.controller.{name}.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
        "offsets.topic.num.partitions": 1,
    }
    if protocol == "SASL_SSL":
        settings |= {
            "listener.name.controller.ssl.keystore.location": str(folder / "node.pem"),
            "listener.name.controller.ssl.truststore.location": str(folder / "ca.pem"),
            "listener.name.controller.ssl.keystore.type": "PEM",
            "listener.name.controller.ssl.truststore.type": "PEM",
        }
    return settings


def format_node(nodes: LocalCluster, node_id: int, data: Path, settings: dict[str, Value]) -> None:
    path = data.with_suffix(".properties")
    lines = {**settings, "log.dirs": str(data)}
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    voters = ",".join(
        f"{each.node_id}@{each.host}:{each.port}:{each.directory_id}" for each in nodes.voters
    )
    words = ["storage", "format", "-c", str(path), "-t", nodes.cluster_id]
    if any(each.node_id == node_id for each in nodes.voters):
        words += ["-I", voters]
        for user, password in (("node", SECRET), ("alice", ALICE)):
            words += ["-S", f"SCRAM-SHA-256=[name={user},password={password}]"]
    else:
        words.append("-N")
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output


@pytest.fixture(
    scope="module",
    params=[("PLAIN", "SASL_SSL"), ("SCRAM-SHA-256", "SASL_PLAINTEXT")],
    ids=["plain-tls", "scram"],
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredCluster]:
    mechanism, protocol = request.param
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority()
    authority.write(folder / "ca.pem")
    authority.identity("node", hosts=[HOST]).write_pem(folder / "node.pem")
    nodes = local_cluster(folder, host=HOST, first_id=0, nodes=3)
    brokers = []
    for node_id, port in enumerate(free_ports(HOST, 3)):
        settings: dict[str, Value] = {
            **nodes.settings(node_id, f"BROKER://{HOST}:{port}"),
            **settings_of(folder, mechanism, protocol, SECRET),
        }
        data = folder / f"node-{node_id}"
        format_node(nodes, node_id, data, settings)
        brokers.append(EmbeddedBroker(settings, data_directory=data, timeout_s=TIMEOUT_S))
    cluster = SecuredCluster(folder, nodes, brokers, mechanism, protocol, str(folder / "ca.pem"))
    try:
        start(brokers)
        yield cluster
        for broker in brokers:
            assert "Traceback" not in broker.log_text, broker.log_text
            assert SECRET not in broker.log_text
    finally:
        for broker in brokers:
            broker.close()


def start(brokers: list[EmbeddedBroker]) -> None:
    with ThreadPoolExecutor(len(brokers)) as together:
        list(together.map(EmbeddedBroker.start, brokers))


def test_nodes_authenticate_and_find_each_other_after_a_restart_of_all(
    cluster: SecuredCluster,
) -> None:
    with Admin(cluster.login("node", SECRET)) as admin:
        admin.create_topic("orders", partitions=3, replication_factor=3)
        with Producer(cluster.login("node", SECRET)) as producer:
            producer.send("orders", b"1").result()
        voters = admin.describe_metadata_quorum().voters
        assert [each.replica_id for each in voters] == [0, 1, 2]
    for broker in cluster.brokers:
        broker.kill()
    start(cluster.brokers)
    with Consumer(
        cluster.login("node", SECRET, group_id="g", auto_offset_reset="earliest")
    ) as consumer:
        consumer.subscribe(["orders"])
        found: list[bytes | None] = []

        def has_read() -> bool:
            found.extend(each.value for each in consumer.poll(1))
            return bool(found)

        await_true(has_read)
    assert found == [b"1"]


def test_controllers_refuse_wrong_credentials_and_unauthorized_users(
    cluster: SecuredCluster,
) -> None:
    with (
        Admin(cluster.controller_login("node", "wrong")) as admin,
        pytest.raises(SaslAuthenticationFailed),
    ):
        admin.describe_metadata_quorum(timeout=TIMEOUT_S)
    with (
        Admin(cluster.controller_login("alice", ALICE)) as admin,
        pytest.raises(ClusterAuthorizationFailed),
    ):
        admin.describe_metadata_quorum(timeout=TIMEOUT_S)
    with (
        Admin({"bootstrap.servers": cluster.leader}) as admin,
        pytest.raises(KafkaTimeout),
    ):
        admin.describe_metadata_quorum(timeout=1)
    with Admin(cluster.controller_login("node", SECRET)) as admin:
        assert len(admin.describe_metadata_quorum(timeout=TIMEOUT_S).voters) == 3


def test_acls_are_enforced_by_the_controllers_for_forwarded_requests(
    cluster: SecuredCluster,
) -> None:
    with (
        Admin(cluster.login("alice", ALICE)) as alice,
        Admin(cluster.login("node", SECRET)) as node,
    ):
        with pytest.raises(TopicAuthorizationFailed):
            alice.create_topic("letters")
        node.create_acls(
            [
                Acl(
                    resource_type=ResourceKind.TOPIC,
                    resource_name="letters",
                    pattern_type=PatternType.LITERAL,
                    principal="User:alice",
                    host="*",
                    operation=Operation.CREATE,
                    permission_type=Permission.ALLOW,
                )
            ]
        )
        alice.create_topic("letters")


def test_broker_with_a_wrong_password_does_not_join_and_says_why(cluster: SecuredCluster) -> None:
    (port,) = free_ports(HOST, 1)
    settings: dict[str, Value] = {
        **cluster.nodes.settings(7, f"BROKER://{HOST}:{port}"),
        **settings_of(cluster.folder, cluster.mechanism, cluster.protocol, "wrong"),
    }
    data = cluster.folder / "node-7"
    format_node(cluster.nodes, 7, data, settings)
    command = [sys.executable, "-m", "headwater", "start"]
    command += ["--config", str(data.with_suffix(".properties"))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            # Ends at the deadline of the test if the line does not come.
            line = next(each for each in process.stderr if "failed" in each)
        finally:
            process.kill()
    assert "authentication failed: client_id=raft-client-7" in line
    assert "wrong" not in line
