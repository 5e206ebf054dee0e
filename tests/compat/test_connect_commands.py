"""The commands for connectors, and a worker with TLS, basic authentication and secured brokers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwater.cli.main import app
from tests.connect_worker import WorkerProcess, eventually
from tests.secured_broker import SecuredBroker, secured_broker

PASSWORD = "let-alice-in"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="module")
def worker(secured: SecuredBroker) -> Iterator[WorkerProcess]:
    door = {
        name if name.startswith(("auth", "headwater")) else f"listeners.https.{name}": value
        for name, value in secured.door(alice=PASSWORD).items()
    }
    settings = {**secured.login, **door, "listeners": "https://127.0.0.1:0"}
    with WorkerProcess(secured.servers, "secured-group", **settings) as started:
        yield started
        assert "Traceback" not in started.log_text, started.log_text
        assert PASSWORD not in started.log_text


@pytest.fixture(scope="module")
def commands(worker: WorkerProcess, secured: SecuredBroker) -> "Commands":
    file = secured.file(basic_auth_user_info=f"alice:{PASSWORD}")
    return Commands(worker, file)


class Commands:
    """Runs `headwater connect` with the URL of a worker."""

    def __init__(self, worker: WorkerProcess, file: Path) -> None:
        self.worker = worker
        self.file = file

    def run(self, *words: str, file: Path | None = None) -> Result:
        given = ["--url", self.worker.url, "--command-config", str(file or self.file)]
        return CliRunner().invoke(app, ["connect", *words, *given])

    def does(self, *words: str) -> str:
        result = self.run(*words)
        assert result.exit_code == 0, result.output
        return result.stdout

    def wait_for_state(self, connector: str, state: str) -> None:
        def is_there() -> bool:
            rows = [json.loads(line) for line in self.does("list", "--json").splitlines()]
            return any(
                each["connector"] == connector and state in (each["state"], each["task"])
                for each in rows
            )

        eventually(is_there, lambda: self.worker.log_text)


@pytest.fixture(scope="module")
def connector(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A connector whose first file is broken."""
    folder = tmp_path_factory.mktemp("drop")
    (folder / "a.json").write_text("{nonsense\n")
    from headwater.cli.spark.connect_client import worker_api

    config = {
        "connector.class": "FilesSource",
        "topic": "orders",
        "path": str(folder),
        "format": "json",
    }
    api = worker_api(commands.worker.url, commands.file)
    api.ask("PUT", "connectors", "orders", "config", body=config)
    return str(folder)


def test_a_connector_is_shown_with_the_reason_of_its_failure(
    commands: Commands, connector: str
) -> None:
    commands.wait_for_state("orders", "FAILED")
    listed = commands.does("list")
    assert "FilesSource" in listed
    assert f"{commands.worker.worker_id}" in listed
    shown = commands.does("status", "orders")
    assert f"task 0: UnreadableFile: {connector}/a.json is not a json file" in shown
    status = json.loads(commands.does("status", "orders", "--json"))
    assert status["tasks"][0]["state"] == "FAILED"


def test_a_connector_is_restarted_paused_resumed_stopped_and_deleted(
    commands: Commands, connector: str
) -> None:
    commands.wait_for_state("orders", "FAILED")
    Path(connector, "a.json").write_text('{"id":1}\n')
    commands.does("restart", "orders", "--only-failed")
    commands.wait_for_state("orders", "RUNNING")
    paused = commands.does("pause", "orders", "--json")
    assert json.loads(paused) == {"connector": "orders", "change": "pause"}
    commands.wait_for_state("orders", "PAUSED")
    commands.does("resume", "orders")
    commands.does("stop", "orders")
    commands.wait_for_state("orders", "STOPPED")
    commands.does("delete", "orders")
    assert commands.does("list", "--json") == ""
    missing = commands.run("status", "orders")
    assert missing.exit_code == 1
    assert "No status found for connector orders" in missing.output


def test_a_worker_with_users_answers_only_them(
    commands: Commands, secured: SecuredBroker, tmp_path: Path
) -> None:
    for login in ("alice:wrong", "eve:x"):
        file = tmp_path / "wrong.properties"
        file.write_text(f"ssl.ca.location={secured.ca}\nbasic.auth.user.info={login}\n")
        refused = commands.run("list", file=file)
        assert refused.exit_code == 1
        assert "User cannot access the resource" in refused.output
    distrustful = tmp_path / "other.properties"
    distrustful.write_text(f"basic.auth.user.info=alice:{PASSWORD}\n")
    refused = commands.run("list", file=distrustful)
    assert refused.exit_code == 1
    assert "no Connect worker answers" in refused.output


def test_without_a_worker_the_installed_connectors_are_listed() -> None:
    result = CliRunner().invoke(app, ["connect", "list", "--json"])
    names = [json.loads(line)["connector"] for line in result.stdout.splitlines()]
    assert names == ["files", "postgresql", "postgresql-cdc"]
