"""Authenticated users have their own permissions."""

from collections.abc import Iterator

import pytest

from headwater.client import Acl, Admin, Producer, ScramUpsertion
from headwater.client.errors import ClusterAuthorizationFailed, TopicAuthorizationFailed
from headwater.security.authorization.authorizer import Operation, ResourceKind
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker
from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required user_admin="admin-secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with checked_broker(SETTINGS) as broker:
        yield broker


def login(broker: EmbeddedBroker, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN" if user == "admin" else "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


def test_user_may_do_what_was_granted(broker: EmbeddedBroker, topic: str) -> None:
    with Admin(login(broker, "admin")) as admin:
        admin.alter_user_scram_credentials(
            [ScramUpsertion(user=name, password=f"{name}-secret") for name in ("alice", "bob")]
        )
        admin.create_topic(topic, partitions=1)
        admin.create_acls(
            [
                Acl(
                    resource_type=ResourceKind.TOPIC,
                    resource_name=topic,
                    principal="User:alice",
                    operation=Operation.WRITE,
                )
            ]
        )
    with Producer(login(broker, "alice")) as producer:
        assert producer.send(topic, b"v").result(TIMEOUT_S).offset == 0
    with pytest.raises(TopicAuthorizationFailed), Producer(login(broker, "bob")) as producer:
        producer.send(topic, b"v").result(TIMEOUT_S)
    theirs = load("confluent_kafka").Producer(login(broker, "bob"))
    failures: list[object] = []
    theirs.produce(topic, b"v", callback=lambda error, _: failures.append(error.name()))
    theirs.flush(TIMEOUT_S)
    assert failures == ["TOPIC_AUTHORIZATION_FAILED"]


def test_only_alter_on_the_cluster_creates_users(broker: EmbeddedBroker) -> None:
    with Admin(login(broker, "admin")) as admin:
        admin.alter_user_scram_credentials([ScramUpsertion(user="carol", password="carol-secret")])
    with Admin(login(broker, "carol")) as admin:
        with pytest.raises(ClusterAuthorizationFailed):
            admin.alter_user_scram_credentials([ScramUpsertion(user="carol", password="more")])
        with pytest.raises(ClusterAuthorizationFailed):
            admin.describe_user_scram_credentials()
