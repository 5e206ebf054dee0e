"""SASL over TLS: the principal is the authenticated user, whatever the certificate."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import Admin, Consumer, Producer, ScramUpsertion
from headwater.client.errors import SaslAuthenticationFailed
from headwater.testing import EmbeddedBroker
from tests.certificates import Authority
from tests.compat.brokers import checked_broker
from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Path]:
    made = Authority()
    return made, made.write(tmp_path_factory.mktemp("tls") / "authority.pem")


@pytest.fixture(scope="module")
def broker(
    authority: tuple[Authority, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    own = authority[0].identity("broker", hosts=["127.0.0.1", "localhost"])
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.write_pem(tmp_path_factory.mktemp("b") / "own.pem")),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN} required user_admin="admin-secret";'
        ),
    }
    with checked_broker(settings) as broker:
        yield broker


def login(
    broker: EmbeddedBroker, trusted: Path, mechanism: str, user: str, password: str
) -> dict[str, str]:
    """librdkafka's settings, which our clients accept too."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(trusted),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def test_our_client_and_librdkafka_authenticate_over_tls(
    broker: EmbeddedBroker, authority: tuple[Authority, Path], topic: str
) -> None:
    trusted = authority[1]
    with Admin(login(broker, trusted, "PLAIN", "admin", "admin-secret")) as admin:
        admin.alter_user_scram_credentials(
            [ScramUpsertion(user="alice", password="pw", mechanism="SCRAM-SHA-512")]
        )
    alice = login(broker, trusted, "SCRAM-SHA-512", "alice", "pw")
    with Producer(alice) as producer:
        producer.send(topic, b"ours").result(TIMEOUT_S)
    theirs = load("confluent_kafka").Producer(alice)
    theirs.produce(topic, b"theirs")
    assert theirs.flush(TIMEOUT_S) == 0
    found: list[bytes | None] = []
    reading = {**alice, "group.id": topic, "auto.offset.reset": "earliest"}
    with Consumer(reading) as consumer:
        consumer.subscribe([topic])
        while len(found) < 2:
            records = consumer.poll(TIMEOUT_S)
            assert records, "nothing came in time"
            found += [record.value for record in records]
    assert found == [b"ours", b"theirs"]


def test_wrong_password_is_reported_over_tls(
    broker: EmbeddedBroker, authority: tuple[Authority, Path]
) -> None:
    wrong = login(broker, authority[1], "PLAIN", "admin", "another")
    with (
        pytest.raises(SaslAuthenticationFailed, match="Invalid username or password"),
        Admin(wrong) as admin,
    ):
        admin.describe_cluster()
