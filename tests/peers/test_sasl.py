"""SASL between Headwater and Apache Kafka: Kafka's tools here, Headwater's clients there."""

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.client import Admin, Consumer, Producer, ScramUpsertion
from headwater.client.errors import KafkaError, SaslAuthenticationFailed
from headwater.testing import EmbeddedBroker
from tests.cluster.cluster_clients import await_true
from tests.peers.apache_kafka import ApacheKafka, run_class
from tests.peers.jars import KAFKA_3_9, KAFKA_4_1
from tests.peers.processes import free_port
from tests.zookeeper_server import real_zookeeper

TIMEOUT_S = 60
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
CONFIGS = "kafka.admin.ConfigCommand"
SASL = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required user_admin="admin-secret";'
    ),
}


def login(servers: str, mechanism: str, user: str, password: str) -> dict[str, object]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f"{PLAIN if mechanism == 'PLAIN' else SCRAM} required "
            f'username="{user}" password="{password}";'
        ),
    }


def file_of(folder: Path, settings: Mapping[str, object]) -> str:
    path = folder / f"{uuid.uuid4().hex}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


@pytest.fixture
def ours() -> Iterator[EmbeddedBroker]:
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", **SASL}
    with EmbeddedBroker(settings, timeout_s=TIMEOUT_S) as broker:
        yield broker
        assert "Traceback" not in broker.log_text


def test_java_client_authenticates_as_a_user_created_with_kafka_configs(
    ours: EmbeddedBroker, tmp_path: Path
) -> None:
    servers = ours.bootstrap_servers
    admin = file_of(tmp_path, login(servers, "PLAIN", "admin", "admin-secret"))
    user = ("--entity-type", "users", "--entity-name", "alice b")
    asked = ("--bootstrap-server", servers, "--command-config", admin, *user)
    words = "SCRAM-SHA-256=[iterations=8192,password=pw-a],SCRAM-SHA-512=[password=pw-b]"
    run_class(KAFKA_4_1, CONFIGS, *asked, "--alter", "--add-config", words)
    described = run_class(KAFKA_4_1, CONFIGS, *asked, "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    with Admin(login(servers, "PLAIN", "admin", "admin-secret")) as own:
        found = own.describe_user_scram_credentials(["alice b"])
    assert found == {"alice b": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 4096}}
    as_java = file_of(tmp_path, login(servers, "SCRAM-SHA-512", "alice b", "pw-b"))
    at = ("--bootstrap-server", servers, "--topic", "tea")
    run_class(
        KAFKA_4_1,
        "org.apache.kafka.tools.ConsoleProducer",
        *at,
        "--producer.config",
        as_java,
        given="green\n",
    )
    reading = {
        **login(servers, "SCRAM-SHA-256", "alice b", "pw-a"),
        "group.id": "g",
        "auto.offset.reset": "earliest",
    }
    with Consumer(reading) as consumer:
        consumer.subscribe(["tea"])
        assert [record.value for record in consumer.poll(TIMEOUT_S)] == [b"green"]
    run_class(KAFKA_4_1, CONFIGS, *asked, "--alter", "--delete-config", "SCRAM-SHA-512")
    assert not can_log_in(servers, "SCRAM-SHA-512", "alice b", "pw-b")
    assert can_log_in(servers, "SCRAM-SHA-256", "alice b", "pw-a")


def test_clients_authenticate_to_kafka_and_get_the_same_errors(
    ours: EmbeddedBroker, tmp_path: Path
) -> None:
    port, sasl_port, controller = free_port(), free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
    settings = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        **SASL,
    }
    with ApacheKafka(tmp_path, settings=settings):
        theirs = f"127.0.0.1:{sasl_port}"
        for servers in (theirs, ours.bootstrap_servers):
            with Admin(login(servers, "PLAIN", "admin", "admin-secret")) as admin:
                admin.alter_user_scram_credentials(
                    [
                        ScramUpsertion(user="alice", password="alice-secret", mechanism=each)
                        for each in MECHANISMS[1:]
                    ]
                )
                found = admin.describe_user_scram_credentials()
                assert found == {"alice": dict.fromkeys(MECHANISMS[1:], 4096)}
        for mechanism in MECHANISMS:
            user = "admin" if mechanism == "PLAIN" else "alice"
            settings_of_client = login(theirs, mechanism, user, f"{user}-secret")
            with Producer(settings_of_client) as producer:
                producer.send("tea", b"green").result(TIMEOUT_S)
            assert refusal(theirs, mechanism, user) == refusal(
                ours.bootstrap_servers, mechanism, user
            )


@pytest.mark.skipif(KAFKA_3_9.absence() is not None, reason="Kafka 3.9 is not there")
def test_users_in_zookeeper_have_the_format_of_kafka_3_9(tmp_path: Path) -> None:
    with real_zookeeper() as server:
        connect = f"{server.connect}/one/kafka"
        words = ["users", "bootstrap", "ours b", "--zookeeper", connect, "--password", "pw-ours"]
        assert CliRunner().invoke(app, words).exit_code == 0
        at = ("--zookeeper", connect, "--entity-type", "users")
        described = run_class(KAFKA_3_9, CONFIGS, *at, "--entity-name", "ours b", "--describe")
        assert "SCRAM-SHA-256=salt=" in described
        settings = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
                f'{SCRAM} required username="ours b" password="pw-ours";'
            ),
            "zookeeper.connect": connect,
            **SASL,
        }
        with EmbeddedBroker(settings, data_directory=tmp_path, timeout_s=TIMEOUT_S) as broker:
            servers = broker.bootstrap_servers
            assert can_log_in(servers, "SCRAM-SHA-256", "ours b", "pw-ours")
            made = ("--alter", "--add-config", "SCRAM-SHA-512=[password=pw-theirs]")
            run_class(KAFKA_3_9, CONFIGS, *at, "--entity-name", "theirs", *made)
            await_true(lambda: can_log_in(servers, "SCRAM-SHA-512", "theirs", "pw-theirs"))
            # The controller now writes the node that Kafka's tool has made.
            with Admin(login(servers, "SCRAM-SHA-256", "ours b", "pw-ours")) as admin:
                admin.alter_user_scram_credentials(
                    [ScramUpsertion(user="theirs", password="pw-new", mechanism="SCRAM-SHA-256")]
                )
            assert can_log_in(servers, "SCRAM-SHA-256", "theirs", "pw-new")
            assert can_log_in(servers, "SCRAM-SHA-512", "theirs", "pw-theirs")
            gone = ("--alter", "--delete-config", "SCRAM-SHA-512")
            run_class(KAFKA_3_9, CONFIGS, *at, "--entity-name", "theirs", *gone)
            await_true(lambda: not can_log_in(servers, "SCRAM-SHA-512", "theirs", "pw-theirs"))


def can_log_in(servers: str, mechanism: str, user: str, password: str) -> bool:
    try:
        with Admin(login(servers, mechanism, user, password)) as admin:
            return bool(admin.describe_cluster())
    except SaslAuthenticationFailed:
        return False


def refusal(servers: str, mechanism: str, user: str) -> str:
    """The error of a wrong password, without the address."""
    with (
        pytest.raises(KafkaError) as refused,
        Admin(login(servers, mechanism, user, "wrong")) as admin,
    ):
        admin.describe_cluster()
    assert isinstance(refused.value, SaslAuthenticationFailed)
    return str(refused.value).partition(": ")[2]
