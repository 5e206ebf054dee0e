"""Our own clients and commands over TLS, and their errors."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import Admin, ConfigResource, Consumer, Producer, TopicPartition, aio
from headwater.client.errors import SslAuthenticationFailed
from headwater.common.exceptions import InvalidSetting
from headwater.testing import EmbeddedBroker
from tests.certificates import PASSWORD, Authority
from tests.compat.brokers import checked_broker

TIMEOUT_S = 60
VALUES = [b"small", bytes(range(256)) * 3_000, b"last"]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def broker(authority: Authority, folder: Path) -> Iterator[EmbeddedBroker]:
    own = authority.identity("broker", hosts=["127.0.0.1"])
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.write_pem(folder / "broker.pem", PASSWORD)),
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write(folder / "authority.pem")),
        "ssl.client.auth": "required",
    }
    with checked_broker(settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def settings(authority: Authority, broker: EmbeddedBroker, folder: Path) -> dict[str, object]:
    alice = authority.identity("alice")
    (folder / "alice.crt").write_text(alice.certificate_pem, encoding="ascii")
    (folder / "alice.key").write_text(alice.key_pem(), encoding="ascii")
    alice.write_pkcs12(folder / "alice.p12", authority.certificate)
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "authority.pem"),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "alice.p12"),
        "ssl.keystore.password": PASSWORD,
    }


def test_blocking_clients_write_and_read(settings: dict[str, object]) -> None:
    with Producer(settings) as producer:
        for value in VALUES:
            producer.send("blocking", value).result(TIMEOUT_S)
    with Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["blocking"])
        found: list[bytes | None] = []
        while len(found) < len(VALUES):
            found += [record.value for record in consumer.poll(TIMEOUT_S)]
    assert found == VALUES


def test_asyncio_clients_write_and_read_with_librdkafkas_settings(
    broker: EmbeddedBroker, settings: dict[str, object], folder: Path
) -> None:
    assert settings
    names = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "ssl",
        "ssl.ca.location": str(folder / "authority.pem"),
        "ssl.certificate.location": str(folder / "alice.crt"),
        "ssl.key.location": str(folder / "alice.key"),
    }

    async def exchange() -> list[bytes | None]:
        async with asyncio.timeout(TIMEOUT_S):
            async with aio.Producer(names) as producer:
                await (await producer.send("asyncio", b"v"))
            async with aio.Consumer({**names, "auto.offset.reset": "earliest"}) as consumer:
                consumer.assign([TopicPartition("asyncio", 0)])
                return [record.value for record in await consumer.poll(TIMEOUT_S)]

    assert asyncio.run(exchange()) == [b"v"]


def test_untrusted_broker_is_reported_at_once(settings: dict[str, object], tmp_path: Path) -> None:
    other = Authority("other").write(tmp_path / "other.pem")
    mistaken = {**settings, "ssl.truststore.location": str(other)}
    with Admin(mistaken) as admin, pytest.raises(SslAuthenticationFailed, match="not trusted"):
        admin.describe_cluster(timeout=TIMEOUT_S)
    with (
        Producer(mistaken) as producer,
        pytest.raises(SslAuthenticationFailed, match="not trusted"),
    ):
        producer.send("nowhere", b"v").result(TIMEOUT_S)


def test_untrusted_client_is_reported_at_once(settings: dict[str, object]) -> None:
    anonymous = {name: text for name, text in settings.items() if "keystore" not in name}
    with Admin(anonymous) as admin, pytest.raises(SslAuthenticationFailed, match="certificate"):
        admin.describe_cluster(timeout=TIMEOUT_S)


def test_unreadable_store_is_reported_when_a_client_is_created(
    settings: dict[str, object],
) -> None:
    with pytest.raises(InvalidSetting, match="check the password"):
        Producer({**settings, "ssl.keystore.password": "no"})
    with pytest.raises(InvalidSetting, match="No such file"):
        Admin({**settings, "ssl.truststore.location": "/nowhere.pem"})


def test_renewed_certificate_is_used_after_its_location_was_altered(
    authority: Authority, broker: EmbeddedBroker, settings: dict[str, object], folder: Path
) -> None:
    """As in Kafka, the same path suffices; existing connections stay."""
    address = ("127.0.0.1", broker.port)
    before = ssl.get_server_certificate(address, ca_certs=str(folder / "authority.pem"))
    renewed = authority.identity("broker", hosts=["127.0.0.1"])
    path = str(renewed.write_pem(folder / "broker.pem", PASSWORD))
    with Admin(settings) as admin:
        resource = ConfigResource.broker(0)
        name = "listener.name.ssl.ssl.keystore.location"
        admin.alter_configs({resource: {name: path}})
        assert admin.describe_configs([resource])[resource][name].value == path
    after = ssl.get_server_certificate(address, ca_certs=str(folder / "authority.pem"))
    assert (before, after) == (before, renewed.certificate_pem)
    assert before != after


def test_commands_accept_a_client_properties_file(
    settings: dict[str, object], tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    lines = [f"{name}={text}\n" for name, text in settings.items()]
    file.write_text("".join(lines), encoding="ascii")
    command = [sys.executable, "-m", "headwater"]
    where = ["--bootstrap", str(settings["bootstrap.servers"]), "--command-config", str(file)]

    def run(*arguments: str, given: bytes = b"") -> bytes:
        done = subprocess.run(
            [*command, *arguments, *where], input=given, capture_output=True, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("produce", "commanded", given=b"one\ntwo\n")
    assert run("consume", "commanded", "--from-beginning", "--max", "2") == b"one\ntwo\n"
    assert b"commanded" in run("topics", "list")
