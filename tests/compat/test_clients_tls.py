"""Other clients over TLS, with and without a client certificate."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest

from headwater.client import Admin, Producer
from headwater.client.errors import SaslAuthenticationFailed
from headwater.network.free_ports import free_ports
from headwater.testing import EmbeddedBroker
from tests.certificates import PASSWORD, Authority
from tests.compat.brokers import checked_broker
from tests.compat.foreign import load

TIMEOUT_S = 60
# Larger than a TLS record and than any buffer on the way.
VALUES = [b"small", bytes(range(256)) * 3_000, b"", b"last"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What a client needs: trusted certificates, and its own."""

    authority: Path
    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def files(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("tls")
    alice = authority.identity("alice", unit="Till")
    files = Files(
        authority=authority.write(folder / "authority.pem"),
        certificate=folder / "alice.pem",
        key=folder / "alice.key",
    )
    files.certificate.write_text(alice.certificate_pem, encoding="ascii")
    files.key.write_text(alice.key_pem(), encoding="ascii")
    return files


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return free_ports("127.0.0.1", 2)


@pytest.fixture(scope="module")
def closed(ports: list[int]) -> str:
    return f"127.0.0.1:{ports[1]}"


@pytest.fixture(scope="module")
def broker(
    authority: Authority, files: Files, ports: list[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    """The first listener accepts clients without a certificate, the second does not."""
    folder = tmp_path_factory.mktemp("broker")
    own = authority.identity("broker", hosts=["127.0.0.1", "localhost"])
    settings = {
        "listeners": f"OPEN://127.0.0.1:{ports[0]},CLOSED://127.0.0.1:{ports[1]}",
        "listener.security.protocol.map": "OPEN:SSL,CLOSED:SSL",
        "inter.broker.listener.name": "OPEN",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(
            own.write_pkcs12(folder / "broker.p12", authority.certificate)
        ),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        "listener.name.closed.ssl.client.auth": "required",
    }
    with checked_broker(settings) as broker:
        yield broker


Exchange = Callable[[str, str, Files, bool], list[bytes]]


def by_confluent(servers: str, topic: str, files: Files, shows_certificate: bool) -> list[bytes]:
    settings = {
        "bootstrap.servers": servers,
        "security.protocol": "ssl",
        "ssl.ca.location": str(files.authority),
    }
    if shows_certificate:
        settings["ssl.certificate.location"] = str(files.certificate)
        settings["ssl.key.location"] = str(files.key)
    producer = confluent_kafka.Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": f"{topic}-readers", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        found: list[bytes] = []
        while len(found) < len(VALUES):
            messages = consumer.consume(1, timeout=TIMEOUT_S)
            assert messages, "nothing came in time"
            assert messages[0].error() is None, messages[0].error()
            found.append(messages[0].value() or b"")
        return found
    finally:
        consumer.close()


def by_kafka_python(servers: str, topic: str, files: Files, shows_certificate: bool) -> list[bytes]:
    settings = {
        "bootstrap_servers": servers,
        "security_protocol": "SSL",
        "ssl_cafile": str(files.authority),
    }
    if shows_certificate:
        settings["ssl_certfile"] = str(files.certificate)
        settings["ssl_keyfile"] = str(files.key)
    kafka = load("kafka")
    producer = kafka.KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value).get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        **settings,
        group_id=None,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    try:
        return [next(consumer).value or b"" for _ in VALUES]
    finally:
        consumer.close()


def by_aiokafka(servers: str, topic: str, files: Files, shows_certificate: bool) -> list[bytes]:
    context = ssl.create_default_context(cafile=str(files.authority))
    if shows_certificate:
        context.load_cert_chain(files.certificate, files.key)
    settings = {
        "bootstrap_servers": servers,
        "security_protocol": "SSL",
        "ssl_context": context,
    }

    aiokafka = load("aiokafka")

    async def exchange() -> list[bytes]:
        async with asyncio.timeout(TIMEOUT_S):
            async with aiokafka.AIOKafkaProducer(**settings) as producer:
                for value in VALUES:
                    await producer.send_and_wait(topic, value)
            async with aiokafka.AIOKafkaConsumer(
                topic, **settings, auto_offset_reset="earliest"
            ) as consumer:
                return [(await consumer.getone()).value or b"" for _ in VALUES]

    return asyncio.run(exchange())


CLIENTS = [by_confluent, by_kafka_python, by_aiokafka]


@pytest.mark.parametrize("exchange", CLIENTS)
def test_clients_write_and_read_over_tls(
    exchange: Exchange, broker: EmbeddedBroker, files: Files
) -> None:
    topic = f"open-{exchange.__name__}"
    assert exchange(broker.bootstrap_servers, topic, files, False) == VALUES


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize("exchange", CLIENTS)
def test_clients_with_a_certificate_are_accepted_where_one_is_required(
    exchange: Exchange, closed: str, files: Files
) -> None:
    topic = f"closed-{exchange.__name__}"
    assert exchange(closed, topic, files, True) == VALUES


def test_sasl_over_tls_needs_no_certificate(
    authority: Authority, files: Files, tmp_path: Path
) -> None:
    """Though `ssl.client.auth` requires one: as in Kafka it does not apply to SASL listeners."""
    own = authority.identity("broker", hosts=["127.0.0.1"])
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(own.write_pem(tmp_path / "broker.pem")),
        "ssl.truststore.location": str(files.authority),
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{module} required user_ann="a-b";',
    }
    with checked_broker(settings) as broker:
        login: dict[str, object] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(files.authority),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "a-b",
        }
        foreign = confluent_kafka.Producer({**login})
        foreign.produce("tea", b"foreign")
        assert foreign.flush(TIMEOUT_S) == 0
        with Producer(login) as producer:
            assert producer.send("tea", b"own").result(TIMEOUT_S).offset == 1
        with (
            Admin({**login, "sasl.password": "no"}) as admin,
            pytest.raises(SaslAuthenticationFailed),
        ):
            admin.describe_cluster(timeout=TIMEOUT_S)


def test_client_without_a_certificate_is_rejected_where_one_is_required(
    broker: EmbeddedBroker, closed: str, files: Files
) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    admin = confluent_kafka.Producer(
        {
            "bootstrap.servers": closed,
            "security.protocol": "ssl",
            "ssl.ca.location": str(files.authority),
            "error_cb": errors.append,
        }
    )
    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(TIMEOUT_S)
    assert any("certificate" in str(error) for error in errors), errors
    assert "peer did not return a certificate" in broker.log_text
