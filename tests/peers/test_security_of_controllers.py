"""Brokers of Apache Kafka that authenticate to a controller of Headwater."""

from pathlib import Path

import pytest

from headwater.client import Admin
from tests.certificates import Authority
from tests.cluster.cluster_clients import TIMEOUT_S, await_true
from tests.peers.kraft_cluster import KraftCluster

pytestmark = pytest.mark.peers

SECRET = "secret-of-the-nodes"


def settings(folder: Path, protocol: str, password: str) -> dict[str, str]:
    prefix = "listener.name.controller"
    found = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="node" password="{password}" user_node="{SECRET}";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Clients and the broker itself are anonymous on the broker's own listener.
        "super.users": "User:node;User:ANONYMOUS",
    }
    if protocol == "SASL_SSL":
        found |= {
            f"{prefix}.ssl.keystore.type": "PEM",
            f"{prefix}.ssl.keystore.location": str(folder / "node.pem"),
            f"{prefix}.ssl.truststore.type": "PEM",
            f"{prefix}.ssl.truststore.location": str(folder / "ca.pem"),
        }
    return found


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_apache_broker_joins_with_its_password(tmp_path: Path, protocol: str) -> None:
    authority = Authority()
    authority.write(tmp_path / "ca.pem")
    authority.identity("node", hosts=["127.0.0.1"]).write_pem(tmp_path / "node.pem")
    with KraftCluster(
        tmp_path, controllers=1, brokers=1, settings=settings(tmp_path, protocol, SECRET)
    ) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=2)
            # The broker learns of the topic a moment after the controller.
            await_true(lambda: "orders" in admin.list_topics())
            quorum = admin.describe_metadata_quorum(timeout=TIMEOUT_S)
        assert [each.replica_id for each in quorum.observers] == cluster.broker_ids
        assert "Traceback" not in cluster.log_of(0)
