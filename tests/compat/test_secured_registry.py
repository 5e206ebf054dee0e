"""A registry with TLS and basic authentication, and a secured broker."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from typer.testing import CliRunner, Result

from headwater.cli.main import app
from headwater.client.schema_registry import (
    RegistryResponseError,
    RegistryUnreachable,
    SchemaRegistry,
)
from headwater.common.exceptions import BrokerDidNotStart
from headwater.testing import EmbeddedRegistry
from headwater.testing.embedded_process import EmbeddedProcess
from tests.console_process import ConsoleProcess
from tests.secured_broker import SECRET, SecuredBroker, properties, secured_broker

pytestmark = pytest.mark.xdist_group("schema-registry")

TEA = '{"type":"record","name":"Tea","fields":[{"name":"kind","type":"string"}]}'
PASSWORD = "let-alice-in"
USER_INFO = f"alice:{PASSWORD}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="module")
def registry(secured: SecuredBroker) -> Iterator[EmbeddedRegistry]:
    door = secured.door(alice=PASSWORD)
    with EmbeddedRegistry(secured.servers, door, client_settings=secured.login) as registry:
        yield registry


class ConfiguredRegistry(EmbeddedProcess):
    """`headwater registry start` with a settings file and nothing else."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            name="the registry",
            folder_prefix="headwater-registry-",
            log_name="registry.log",
            timeout_s=60,
        )
        self._file = file
        self.url = ""

    def _arguments(self, folder: Path) -> list[str]:
        del folder
        return ["registry", "start", "--config", str(self._file)]

    def _serves(self, line: str) -> None:
        self.url = line.split()[4]


def command(*words: str) -> Result:
    return CliRunner().invoke(app, ["registry", *words])


def test_confluents_client_needs_tls_and_the_password(
    registry: EmbeddedRegistry, secured: SecuredBroker
) -> None:
    assert registry.url.startswith("https://")
    settings = {"url": registry.url, "ssl.ca.location": secured.ca}
    with SchemaRegistryClient({**settings, "basic.auth.user.info": USER_INFO}) as theirs:
        schema_id = theirs.register_schema("tea-value", Schema(TEA, "AVRO"))
        assert theirs.get_latest_version("tea-value").schema_id == schema_id
    for login in ({}, {"basic.auth.user.info": "alice:wrong"}, {"basic.auth.user.info": "eve:x"}):
        with (
            SchemaRegistryClient({**settings, **login}) as client,
            pytest.raises(SchemaRegistryError) as refused,
        ):
            client.get_subjects()
        assert refused.value.http_status_code == 401


def test_our_client_authenticates_the_same_way(
    registry: EmbeddedRegistry, secured: SecuredBroker
) -> None:
    settings = {"ssl.ca.location": secured.ca, "basic.auth.user.info": USER_INFO}
    with SchemaRegistry(registry.url, settings) as ours:
        schema_id = ours.register("ours-value", TEA)
        assert ours.schema(schema_id).schema == TEA
    named = {**settings, "schema.registry.url": registry.url}
    inherited = {"basic.auth.credentials.source": "SASL_INHERIT"}
    inherited |= {"sasl.username": "alice", "sasl.password": PASSWORD}
    del settings["basic.auth.user.info"]
    in_url = registry.url.replace("https://", f"https://{USER_INFO}@")
    for client in (
        SchemaRegistry(settings=named),
        SchemaRegistry(registry.url, {**settings, **inherited}),
        SchemaRegistry(in_url, settings),
    ):
        with client:
            assert "ours-value" in client.subjects()


def test_authentication_and_tls_errors_are_reported(
    registry: EmbeddedRegistry, secured: SecuredBroker
) -> None:
    with (
        SchemaRegistry(registry.url, {"ssl.ca.location": secured.ca}) as anonymous,
        pytest.raises(RegistryResponseError, match="user and password are needed") as refused,
    ):
        anonymous.subjects()
    assert refused.value.status == 401
    eve = {"ssl.ca.location": secured.ca, "basic.auth.user.info": f"eve:{PASSWORD}"}
    with SchemaRegistry(registry.url, eve) as unknown_user, pytest.raises(RegistryResponseError):
        unknown_user.subjects()
    with (
        SchemaRegistry(registry.url, {"basic.auth.user.info": USER_INFO}) as distrustful,
        pytest.raises(RegistryUnreachable, match="is not trusted"),
    ):
        distrustful.subjects()
    with (
        SchemaRegistry(registry.url.replace("https", "http")) as plain,
        pytest.raises(RegistryUnreachable),
    ):
        plain.subjects()
    assert "user='eve'" in registry.log_text
    assert PASSWORD not in registry.log_text


def test_commands_read_credentials_and_ca_from_the_client_properties_file(
    registry: EmbeddedRegistry, secured: SecuredBroker, tmp_path: Path
) -> None:
    file = secured.file(basic_auth_user_info=USER_INFO, schema_registry_url=registry.url)
    schema = tmp_path / "tea.avsc"
    schema.write_text(TEA, encoding="utf-8")
    made = command("register", "tea-value", str(schema), "--command-config", str(file))
    assert made.exit_code == 0, made.output
    listed = command("subjects", "--command-config", str(file), "--json")
    assert listed.exit_code == 0, listed.output
    subjects = [json.loads(line)["subject"] for line in listed.stdout.splitlines()]
    assert "tea-value" in subjects
    refused = command("subjects", "--url", registry.url, "--command-config", str(secured.file()))
    assert refused.exit_code == 1
    assert "401" in refused.output
    # The same file serves commands that only use brokers.
    file = secured.file(basic_auth_user_info=USER_INFO, schema_registry_url=registry.url)
    words = ["consume", "_schemas", "--from-beginning", "--exit", "--bootstrap", secured.servers]
    read = CliRunner().invoke(app, [*words, "--command-config", str(file)])
    assert read.exit_code == 0, read.output
    assert "tea-value" in read.output


def test_confluents_registry_properties_start_our_registry(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    door = secured.door(alice=f"{PASSWORD},reader", bob="bobs,guest")
    given = {
        **door,
        **{f"kafkastore.{name}": value for name, value in secured.login.items()},
        "kafkastore.bootstrap.servers": f"SASL_SSL://{secured.servers}",
        "listeners": "https://127.0.0.1:0",
        "ssl.client.authentication": "NONE",
        "authentication.roles": "reader,writer",
        "kafkastore.topic.replication.factor": "3",
    }
    file = properties(tmp_path / "schema-registry.properties", given)
    with ConfiguredRegistry(file) as process:
        url = process.url
        assert "kafkastore.topic.replication.factor is ignored" in process.log_text
        with SchemaRegistry(
            url, {"ssl.ca.location": secured.ca, "basic.auth.user.info": USER_INFO}
        ) as client:
            assert client.register("taken-over-value", TEA) > 0
        bob = {"ssl.ca.location": secured.ca, "basic.auth.user.info": "bob:bobs"}
        with SchemaRegistry(url, bob) as client, pytest.raises(RegistryResponseError):
            client.subjects()
        arguments = Path(f"/proc/{process.pid}/cmdline").read_text()
        assert SECRET not in arguments
        assert PASSWORD not in arguments


def test_errors_in_the_files_are_one_line_and_exit_code_2(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    door = {**secured.door(alice=PASSWORD), "ssl.keystore.location": "/nowhere.pem"}
    file = properties(tmp_path / "door.properties", door)
    result = command("start", "--config", str(file), "--listen", "127.0.0.1:0")
    assert (result.exit_code, "/nowhere.pem" in result.output) == (2, True)
    with pytest.raises(BrokerDidNotStart, match="Authentication failed"):
        EmbeddedRegistry(
            secured.servers, client_settings={**secured.login, "sasl.password": "wrong"}
        ).start()


def test_console_has_tls_and_authentication_and_uses_the_registry(
    registry: EmbeddedRegistry, secured: SecuredBroker, tmp_path: Path
) -> None:
    door = properties(tmp_path / "console.properties", secured.door(alice=PASSWORD))
    file = secured.file(basic_auth_user_info=USER_INFO, schema_registry_url=registry.url)
    settings = {"ssl.ca.location": secured.ca, "basic.auth.user.info": USER_INFO}
    with SchemaRegistry(registry.url, settings) as client:
        client.register("shown-value", TEA)
    pair = base64.b64encode(USER_INFO.encode()).decode()
    options = ("--config", str(door), "--command-config", str(file))
    with ConsoleProcess(secured.servers, *options, trusted=secured.ca) as console:
        assert console.url.startswith("https://")
        refused = console.get("/api/topics")
        assert refused.status == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
        assert console.get("/assets/console.css").status == 401
        answer = console.get("/api/schemas", Authorization=f"Basic {pair}")
        assert answer.status == 200
        assert "shown-value" in answer.json["subjects"]["rows"]
        assert PASSWORD not in answer.text
