"""TLS between Headwater and Apache Kafka: Kafka's tools here, Headwater's clients there."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from headwater.client import Admin, Consumer, Producer
from headwater.client.errors import SslAuthenticationFailed
from headwater.testing import EmbeddedBroker
from tests.certificates import PASSWORD, Authority
from tests.peers.apache_kafka import ApacheKafka, run_class
from tests.peers.jars import KAFKA_4_1
from tests.peers.processes import free_port

TIMEOUT_S = 60
VALUES = ["green", "x" * 100_000, "black"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Stores of a broker and a client, in a format that both systems read."""
    folder = tmp_path_factory.mktemp("stores")
    authority = Authority()
    trusted = authority.write(folder / "authority.pem")
    found = {}
    for name in ("broker", "alice"):
        who = authority.identity(name, hosts=["127.0.0.1"])
        path = who.write_pkcs12(folder / f"{name}.p12", authority.certificate)
        found[name] = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(path),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
        }
    return found


def read(settings: Mapping[str, object], topic: str) -> list[str]:
    wanted = {**settings, "group.id": "readers", "auto.offset.reset": "earliest"}
    found: list[str] = []
    with Consumer(wanted) as consumer:
        consumer.subscribe([topic])
        while len(found) < len(VALUES):
            found += [(record.value or b"").decode() for record in consumer.poll(TIMEOUT_S)]
    return found


def test_java_clients_produce_and_consume_over_tls(
    stores: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    settings = {
        **stores["broker"],
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
    }
    file = tmp_path / "client.properties"
    client = {"security.protocol": "SSL", **stores["alice"]}
    file.write_text("".join(f"{name}={value}\n" for name, value in client.items()))
    with EmbeddedBroker(settings, timeout_s=TIMEOUT_S) as broker:
        servers = broker.bootstrap_servers
        at = ("--bootstrap-server", servers, "--topic", "tea")
        run_class(
            KAFKA_4_1,
            "org.apache.kafka.tools.ConsoleProducer",
            *at,
            "--producer.config",
            str(file),
            given="".join(f"{value}\n" for value in VALUES),
        )
        assert read({"bootstrap.servers": servers, **client}, "tea") == VALUES
        printed = run_class(
            KAFKA_4_1,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *at,
            "--consumer.config",
            str(file),
            "--from-beginning",
            "--max-messages",
            str(len(VALUES)),
        )
        assert printed.splitlines() == VALUES
        assert "Traceback" not in broker.log_text


def test_clients_produce_and_consume_at_kafka_over_tls(
    stores: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    port, tls_port, controller = free_port(), free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls_port}"
    settings = {
        **stores["broker"],
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "ssl.client.auth": "required",
    }
    client: dict[str, object] = {
        "bootstrap.servers": f"127.0.0.1:{tls_port}",
        "security.protocol": "SSL",
        **stores["alice"],
    }
    with ApacheKafka(tmp_path, settings=settings):
        with Producer(client) as producer:
            for value in VALUES:
                producer.send("tea", value.encode()).result(TIMEOUT_S)
        assert read(client, "tea") == VALUES
        anonymous = {name: value for name, value in client.items() if "keystore" not in name}
        with Admin(anonymous) as admin, pytest.raises(SslAuthenticationFailed, match="certificate"):
            admin.describe_cluster(timeout=TIMEOUT_S)
