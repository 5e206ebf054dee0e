"""Three brokers that authenticate to each other with SCRAM, as a bootstrap user."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.client import Admin, Consumer, Producer, ScramUpsertion
from headwater.client.errors import KafkaError, SaslAuthenticationFailed
from headwater.common.settings.setting_types import Value
from headwater.testing.embedded_broker import EmbeddedBroker
from tests.cluster.cluster_clients import TIMEOUT_S, await_true
from tests.zookeeper_server import real_zookeeper

pytestmark = pytest.mark.slow

MECHANISM = "SCRAM-SHA-256"
SETTINGS: dict[str, Value] = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISM,
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="broker" password="broker-secret";'
    ),
    # So short that brokers re-authenticate several times while the test runs.
    "connections.max.reauth.ms": 2_000,
    "offsets.topic.num.partitions": 3,
    "min.insync.replicas": 2,
}


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[EmbeddedBroker]]:
    with real_zookeeper() as zookeeper:
        words = ["users", "bootstrap", "broker", "--zookeeper", zookeeper.connect]
        made = CliRunner().invoke(app, words, input="broker-secret\n")
        assert made.exit_code == 0, made.output
        started = [
            EmbeddedBroker(
                {**SETTINGS, "node.id": number, "zookeeper.connect": zookeeper.connect},
                timeout_s=TIMEOUT_S,
            )
            for number in range(3)
        ]
        try:
            with ThreadPoolExecutor(3) as together:
                list(together.map(EmbeddedBroker.start, started))
            yield started
            for broker in started:
                assert "Traceback" not in broker.log_text, broker.log_text
                assert "secret" not in broker.log_text
        finally:
            for broker in started:
                broker.close()


def login(servers: str, user: str, password: str) -> dict[str, object]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
    }


def test_authenticated_brokers_replicate_and_share_scram_users(
    brokers: list[EmbeddedBroker],
) -> None:
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    topic, user = f"topic-{uuid.uuid4().hex[:8]}", f"user {uuid.uuid4().hex[:8]}"
    for broker in brokers:
        # One of them is the controller, and the others forward it in envelopes.
        with Admin(login(broker.bootstrap_servers, "broker", "broker-secret")) as admin:
            admin.alter_user_scram_credentials(
                [ScramUpsertion(user=f"{user}{broker.port}", password="pw-of-user")]
            )
    with Admin(login(servers, "broker", "broker-secret")) as admin:
        admin.create_topic(topic, partitions=6, replication_factor=3)
    for maker in brokers:
        name = f"{user}{maker.port}"
        for broker in brokers:
            await_true(partial(can_log_in, broker, name))
    with Producer({**login(servers, "broker", "broker-secret"), "acks": "all"}) as producer:
        sent = [producer.send(topic, b"%d" % number, partition=number % 6) for number in range(60)]
        assert all(each.result(TIMEOUT_S) for each in sent)
    reading = {
        **login(servers, f"{user}{brokers[0].port}", "pw-of-user"),
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    found: list[bytes | None] = []
    with Consumer(reading) as consumer:
        consumer.subscribe([topic])

        def is_read() -> bool:
            found.extend(record.value for record in consumer.poll(1))
            return len(found) >= 60

        await_true(is_read)
    assert sorted(found, key=lambda value: int(value or b"-1")) == [b"%d" % n for n in range(60)]


def test_killed_broker_returns_and_authenticates(brokers: list[EmbeddedBroker]) -> None:
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(login(servers, "broker", "broker-secret")) as admin:
        admin.create_topic(topic, partitions=3, replication_factor=3)
        brokers[2].kill()
        brokers[2].start()

        def is_whole() -> bool:
            found = admin.describe_topics([topic])[topic]
            return all(len(each.isr) == 3 for each in found.partitions)

        await_true(is_whole)


def can_log_in(broker: EmbeddedBroker, user: str) -> bool:
    try:
        with Admin(login(broker.bootstrap_servers, user, "pw-of-user")) as admin:
            return bool(admin.describe_cluster(timeout=TIMEOUT_S))
    except SaslAuthenticationFailed:
        # It does not have the user in its metadata yet.
        return False
    except KafkaError as error:
        raise AssertionError(f"another failure than of the login: {error}") from error
