"""`headwater users` against a real broker, and before there is one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwater.cli.main import app
from headwater.client import Admin
from headwater.client.errors import SaslAuthenticationFailed
from headwater.testing import EmbeddedBroker

SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
}


def run(*words: str, given: str = "") -> Result:
    return CliRunner().invoke(app, ["users", *words], input=given)


def json_rows(*words: str, given: str = "") -> list[dict[str, object]]:
    result = run(*words, "--json", given=given)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def can_log_in(broker: EmbeddedBroker, user: str, password: str, mechanism: str) -> bool:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    try:
        with Admin(settings) as admin:
            return bool(admin.describe_cluster())
    except SaslAuthenticationFailed:
        return False


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


def test_users_are_created_listed_and_deleted(broker: EmbeddedBroker) -> None:
    at = ("--bootstrap", broker.bootstrap_servers)
    made = json_rows(
        "create", "alice", "-m", "SCRAM-SHA-512", "--iterations", "8192", *at, given="pw\n"
    )
    assert made == [{"user": "alice", "mechanism": "SCRAM-SHA-512"}]
    assert run("create", "b c", "--password", "pw", *at).exit_code == 0
    assert json_rows("list", *at) == [
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
        {"user": "b c", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
    ]
    json_rows("create", "alice", *at, given="other\n")
    assert len(json_rows("delete", "alice", *at)) == 2
    assert [each["user"] for each in json_rows("list", *at)] == ["b c"]


def test_errors_are_one_line(broker: EmbeddedBroker) -> None:
    at = ("--bootstrap", broker.bootstrap_servers)
    for words, given, why, code in (
        (("create", "x", "--iterations", "1", *at), "pw\n", "Too few iterations", 1),
        (("create", "x", "-m", "SCRAM-MD5", *at), "pw\n", "one of SCRAM-SHA-256", 1),
        (("create", "x", *at), "", "standard input has no password", 2),
        (("delete", "missing", *at), "", "does not exist", 1),
        (("bootstrap", "x"), "pw\n", "one of --data and --zookeeper", 2),
    ):
        result = run(*words, given=given)
        assert result.exit_code == code, result.output
        assert why in result.output


def test_a_user_created_before_the_first_start_can_authenticate(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ("bootstrap", "admin", "--data", str(data), "-m", "SCRAM-SHA-512")
    assert run(*words, given="first-secret\n").exit_code == 0
    with EmbeddedBroker(SASL, data_directory=data) as broker:
        assert can_log_in(broker, "admin", "first-secret", "SCRAM-SHA-512")
        assert not can_log_in(broker, "admin", "first-secret", "SCRAM-SHA-256")
        login = tmp_path / "admin.properties"
        login.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            "sasl.username=admin\nsasl.password=first-secret\n"
        )
        at = ("--bootstrap", broker.bootstrap_servers, "--command-config", str(login))
        json_rows("create", "alice", *at, given="pw\n")
        assert [each["user"] for each in json_rows("list", *at)] == ["admin", "alice"]
        refused = run(*words, given="another\n")
        assert refused.exit_code == 1
        assert "in use" in refused.output
        assert b"first-secret" not in (data / "cluster.facts").read_bytes()
    # And again after the broker has run.
    assert run(*words, given="second-secret\n").exit_code == 0
    with EmbeddedBroker(SASL, data_directory=data) as broker:
        assert can_log_in(broker, "admin", "second-secret", "SCRAM-SHA-512")
        assert not can_log_in(broker, "admin", "first-secret", "SCRAM-SHA-512")


def test_bootstrap_does_not_orphan_logs_of_another_broker(tmp_path: Path) -> None:
    (tmp_path / "tea-0").mkdir()
    (tmp_path / "tea-0" / "00000000000000000000.log").touch()
    result = run("bootstrap", "admin", "--data", str(tmp_path), given="pw\n")
    assert result.exit_code == 1
    assert "start the broker once" in result.output
