"""Other clients under quotas: they are throttled, and lose nothing."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.client import Admin, QuotaEntity, ScramUpsertion
from headwater.client.errors import KafkaError
from headwater.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker, scrape
from tests.peers.raw_client import ConnectionClosed, RawClient

TIMEOUT_S = 120
RECORDS = 40
RECORD_BYTES = 25_000
RATE = 250_000
# A second's worth of the rate is free, and bursts get up to twice the rate.
AT_LEAST_S = (RECORDS * RECORD_BYTES - RATE) / RATE / 2


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with quota windows of two seconds instead of eleven, to keep tests short."""
    with checked_broker({"quota.window.num": "2", "controller.quota.window.num": "1"}) as opened:
        yield opened


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        yield opened


class Waits:
    """Records the throttle times that librdkafka reports."""

    def __init__(self) -> None:
        self.told_s: list[float] = []

    def __call__(self, event: object) -> None:
        self.told_s.append(getattr(event, "throttle_time", 0.0))

    @property
    def longest_s(self) -> float:
        return max(self.told_s, default=0.0)


def fill(servers: str, topic: str, client_id: str, waits: Waits | None = None) -> float:
    """Produce all records; return the seconds it took."""
    settings: dict[str, object] = {
        "bootstrap.servers": servers,
        "client.id": client_id,
        "batch.size": 50_000,
        "linger.ms": 5,
    }
    if waits is not None:
        settings["throttle_cb"] = waits
    producer = Producer(settings)
    began_s = time.monotonic()
    for number in range(RECORDS):
        producer.produce(topic, value=number.to_bytes(4, "big").ljust(RECORD_BYTES, b"\0"))
    assert producer.flush(TIMEOUT_S) == 0
    producer.poll(0)
    return time.monotonic() - began_s


def drain(servers: str, topic: str, client_id: str, waits: Waits) -> tuple[list[int], float]:
    """Consume all records; return their numbers and the seconds it took."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "group.id": f"of-{topic}",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 50_000,
            "throttle_cb": waits,
        }
    )
    found: list[int] = []
    began_s = time.monotonic()
    try:
        consumer.subscribe([topic])
        while len(found) < RECORDS and time.monotonic() < began_s + TIMEOUT_S:
            for message in consumer.consume(RECORDS, timeout=1):
                assert message.error() is None, message.error()
                value = message.value()
                assert isinstance(value, bytes)
                found.append(int.from_bytes(value[:4], "big"))
        return found, time.monotonic() - began_s
    finally:
        consumer.close()


def test_producer_above_its_byte_rate_is_throttled_and_loses_nothing(
    broker: EmbeddedBroker, admin: Admin, topic: str
) -> None:
    admin.create_topic(topic)
    admin.alter_client_quotas({QuotaEntity(client_id="slow"): {"producer_byte_rate": RATE}})
    waits = Waits()
    took_s = fill(broker.bootstrap_servers, topic, "slow", waits)
    assert took_s > AT_LEAST_S
    assert waits.longest_s > 0


def test_consumer_above_its_byte_rate_is_throttled_and_gets_everything_once(
    broker: EmbeddedBroker, admin: Admin, topic: str
) -> None:
    admin.create_topic(topic)
    user = QuotaEntity(user="ANONYMOUS", client_id="slow-reader")
    admin.alter_client_quotas({user: {"consumer_byte_rate": RATE}})
    fill(broker.bootstrap_servers, topic, "free")
    waits = Waits()
    found, took_s = drain(broker.bootstrap_servers, topic, "slow-reader", waits)
    assert found == list(range(RECORDS))
    assert took_s > AT_LEAST_S
    assert waits.longest_s > 0


def test_confluents_admin_client_is_served_and_then_throttled_for_mutations(
    broker: EmbeddedBroker, admin: Admin, topic: str
) -> None:
    """QU-4: librdkafka uses versions that cannot be rejected."""
    admin.alter_client_quotas({QuotaEntity(client_id="maker"): {"controller_mutation_rate": 2}})
    theirs = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "maker"})
    # Two partitions are free, and the other two take a second.
    theirs.create_topics([NewTopic(topic, 4, 1)])[topic].result(TIMEOUT_S)
    began_s = time.monotonic()
    theirs.create_topics([NewTopic(f"{topic}-2", 1, 1)])[f"{topic}-2"].result(TIMEOUT_S)
    assert time.monotonic() - began_s > 0.5


def test_newer_admin_client_is_rejected_until_the_throttle_time_has_passed(
    broker: EmbeddedBroker, admin: Admin, topic: str
) -> None:
    """QU-4."""
    admin.alter_client_quotas({QuotaEntity(client_id="ours"): {"controller_mutation_rate": 0.001}})
    servers = broker.bootstrap_servers
    with Admin(bootstrap_servers=servers, client_id="ours") as ours:
        ours.create_topic(topic, partitions=1)
    # Another connection, since that one is muted for a quarter of an hour.
    with (
        Admin(bootstrap_servers=servers, client_id="ours") as ours,
        pytest.raises(KafkaError, match="controller_mutation_rate"),
    ):
        ours.create_topic(f"{topic}-2", partitions=1)


def test_quota_survives_a_restart_and_applies_from_the_start(
    broker: EmbeddedBroker, admin: Admin
) -> None:
    hurried = QuotaEntity(user="ANONYMOUS", client_id="hurried")
    admin.alter_client_quotas({hurried: {"request_percentage": 0.000001}})
    broker.restart()
    with RawClient(broker.bootstrap_servers, client_id="hurried") as client:
        answer = client.ask(MetadataRequest(topics=()), 12)
    assert isinstance(answer, MetadataResponse)
    # The longest throttle time of the request quota.
    assert answer.throttle_time_ms == 1_000


def test_ip_above_its_connection_rate_gets_no_response(
    broker: EmbeddedBroker, admin: Admin
) -> None:
    """KIP-612. The address is 127.0.0.1, and its window is two seconds."""
    here = QuotaEntity(ip="127.0.0.1")
    admin.alter_client_quotas({here: {"connection_creation_rate": 3}})
    try:
        closed = 0
        for _ in range(10):
            with RawClient(broker.bootstrap_servers) as client:
                try:
                    client.ask(MetadataRequest(topics=()), 12)
                except ConnectionClosed:
                    closed += 1
            if closed:
                break
        assert closed
    finally:
        # Existing connections are not affected.
        admin.alter_client_quotas({here: {"connection_creation_rate": None}})


THROTTLED = 'kafka_server_throttled_total{quota="Request"}'
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
WITH_LOGINS = {
    "listeners": "INSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.inside.plain.sasl.jaas.config": f'{MODULE} required user_root="root-secret";',
    "headwater.metrics.listener": "127.0.0.1:0",
}


def logged_in(broker: EmbeddedBroker, mechanism: str, user: str, password: str) -> Admin:
    return Admin(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
    )


def test_user_has_both_a_quota_and_a_scram_credential() -> None:
    """Both are stored in one znode, and each is changed without the other."""
    alice = QuotaEntity(user="alice")
    with checked_broker(WITH_LOGINS) as broker:
        with logged_in(broker, "PLAIN", "root", "root-secret") as root:
            first = ScramUpsertion(user="alice", password="first", mechanism="SCRAM-SHA-256")
            root.alter_user_scram_credentials([first])
            root.alter_client_quotas({alice: {"request_percentage": 0.000001}})
            second = ScramUpsertion(user="alice", password="second", mechanism="SCRAM-SHA-256")
            root.alter_user_scram_credentials([second])
            assert root.describe_client_quotas() == {alice: {"request_percentage": 0.000001}}
        assert scrape(broker)[THROTTLED] == 0
        with logged_in(broker, "SCRAM-SHA-256", "alice", "second") as slow:
            slow.list_topics()
        assert scrape(broker)[THROTTLED] > 0
        with logged_in(broker, "PLAIN", "root", "root-secret") as root:
            root.alter_client_quotas({alice: {"request_percentage": None}})
            assert "alice" in root.describe_user_scram_credentials()
