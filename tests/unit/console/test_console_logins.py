"""A console at a broker with authentication and ACLs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import Admin, Producer
from headwater.testing import EmbeddedBroker
from tests.console_process import ConsoleProcess

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE} required username="admin" password="admin-secret" '
        'user_admin="admin-secret" user_guest="guest-secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def login(broker: EmbeddedBroker, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULE} required username="{user}" password="{password}";',
    }


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS) as broker:
        admin = login(broker, "admin", "admin-secret")
        with Admin(admin) as cluster, Producer(admin) as producer:
            cluster.create_topic("secrets", partitions=1)
            producer.send("secrets", b"tea").result(30)
        yield broker


def config_file(folder: Path, settings: dict[str, str]) -> str:
    file = folder / "client.properties"
    lines = [f"{name}={value}" for name, value in settings.items() if name != "bootstrap.servers"]
    # Kafka's tools share one file, so it may contain producer settings too.
    lines.append("acks=all")
    file.write_text("\n".join(lines), encoding="latin-1")
    return str(file)


def test_console_authenticates_with_a_settings_file(broker: EmbeddedBroker, tmp_path: Path) -> None:
    file = config_file(tmp_path, login(broker, "admin", "admin-secret"))
    with ConsoleProcess(broker.bootstrap_servers, "--command-config", file) as console:
        [record] = console.api("/topics/secrets/records")["records"]
        assert record["value"]["text"] == "tea"
        assert console.post_json("/topics/secrets/records", {"value": "more"}).status == 200


def test_console_shows_what_its_clients_are_authorized_to_see(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    file = config_file(tmp_path, login(broker, "guest", "guest-secret"))
    with ConsoleProcess(broker.bootstrap_servers, "--command-config", file) as console:
        overview = console.api("/overview")
        assert overview["topics"] == 0
        assert "CLUSTER_AUTHORIZATION_FAILED" in overview["brokers"][0]["complaint"]
        assert console.get("/topics/secrets").status == 404
        assert console.get("/groups").status == 200
        assert console.get("/transactions").status == 200
        assert console.post_json("/topics", {"name": "mine"}).status == 403


def test_wrong_password_is_a_one_line_error(broker: EmbeddedBroker, tmp_path: Path) -> None:
    file = config_file(tmp_path, login(broker, "admin", "wrong"))
    with ConsoleProcess(broker.bootstrap_servers, "--command-config", file) as console:
        refused = console.get("/api/overview")
        assert refused.status == 403
        assert len(refused.json["error"].splitlines()) == 1
