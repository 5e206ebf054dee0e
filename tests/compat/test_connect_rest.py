"""The REST API of a Connect worker, request by request as Kafka Connect's documentation has it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.client import Admin
from headwater.testing import EmbeddedBroker
from tests.connect_worker import WorkerProcess, eventually

STOP_FIRST = "Connectors must be in the STOPPED state before their offsets can be modified"


@pytest.fixture(scope="module")
def worker(shared_broker: EmbeddedBroker) -> Iterator[WorkerProcess]:
    with WorkerProcess(shared_broker.bootstrap_servers, "rest-group") as started:
        yield started
        assert "Traceback" not in started.log_text, started.log_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def source(worker: WorkerProcess, folder: Path) -> dict[str, str]:
    """The config of a source that has copied three rows and runs."""
    (folder / "in").mkdir()
    rows = [{"id": number, "name": f"n{number}"} for number in range(3)]
    text = "".join(json.dumps(each) + "\n" for each in rows)
    (folder / "in" / "a.json").write_text(text)
    config = {
        "connector.class": "FilesSource",
        "topic": "rest-orders",
        "key": "id",
        "path": str(folder / "in"),
        "format": "json",
        "poll.interval.ms": "100",
    }
    assert worker.ask("PUT", "/connectors/source/config", config).status == 201
    worker.wait_for_state("source", "RUNNING")
    return {**config, "name": "source"}


def refused(answer: Any, status: int) -> str:
    """The message of an error, whose code must be the status."""
    assert answer.status == status
    assert answer.json["error_code"] == status
    assert sorted(answer.json) == ["error_code", "message"]
    return str(answer.json["message"])


def running(worker: WorkerProcess) -> dict[str, str]:
    return {
        "state": "RUNNING",
        "worker_id": worker.worker_id,
        "version": headwater.__version__,
    }


def config_of(folder: Path, **more: str) -> dict[str, str]:
    """A source that finds no file."""
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    return {"connector.class": "FilesSource", "topic": "rest-none", "path": str(empty), **more}


def test_the_root_shows_version_and_cluster(
    worker: WorkerProcess, shared_broker: EmbeddedBroker
) -> None:
    found = worker.get("/")
    assert sorted(found) == ["commit", "kafka_cluster_id", "version"]
    assert found["version"] == headwater.__version__
    with Admin({"bootstrap.servers": shared_broker.bootstrap_servers}) as admin:
        assert found["kafka_cluster_id"] == admin.describe_cluster().cluster_id
    assert worker.get("/health")["status"] == "healthy"


def test_connectors_are_listed_with_status_and_info(
    worker: WorkerProcess, source: dict[str, str]
) -> None:
    assert "source" in worker.get("/connectors")
    expanded = worker.get("/connectors?expand=status&expand=info")["source"]
    assert expanded["info"] == {
        "name": "source",
        "config": source,
        "tasks": [{"connector": "source", "task": 0}],
        "type": "source",
    }
    assert expanded["status"] == {
        "name": "source",
        "connector": running(worker),
        "tasks": [{"id": 0, **running(worker)}],
        "type": "source",
    }


def test_a_connector_is_created_shown_and_deleted(worker: WorkerProcess, folder: Path) -> None:
    config = config_of(folder)
    body = {"name": "created/1", "config": config, "initial_state": "STOPPED"}
    answer = worker.ask("POST", "/connectors", body)
    assert answer.status == 201
    assert answer.headers["location"] == "/connectors/created%2F1"
    assert answer.json == {
        "name": "created/1",
        "config": {**config, "name": "created/1"},
        "tasks": [],
        "type": "source",
    }
    assert worker.get("/connectors/created%2F1/config") == answer.json["config"]
    again = worker.ask("POST", "/connectors", body)
    assert refused(again, 409) == "Connector created/1 already exists"
    deleted = worker.ask("DELETE", "/connectors/created%2F1")
    assert (deleted.status, deleted.raw) == (204, b"")
    missing = worker.ask("GET", "/connectors/created%2F1")
    assert refused(missing, 404) == "Connector created/1 not found"


def test_an_invalid_config_is_refused_with_all_errors(worker: WorkerProcess, folder: Path) -> None:
    config = config_of(folder, topic="", pth="x")
    message = refused(worker.ask("POST", "/connectors", {"name": "bad", "config": config}), 400)
    assert message.startswith(
        "Connector configuration is invalid and contains the following 1 error(s):\n"
    )
    assert "pth" in message
    config = config_of(folder, name="other")
    message = refused(worker.ask("PUT", "/connectors/bad/config", config), 400)
    assert "(other) doesn't match" in message


def test_a_config_is_replaced_and_patched(worker: WorkerProcess, folder: Path) -> None:
    config = config_of(folder)
    path = "/connectors/patched/config"
    assert worker.ask("PUT", path, config).status == 201
    assert worker.ask("PUT", path, config).status == 200
    patch = {"poll.interval.ms": 70, "format": "json", "key": None}
    patched = worker.ask("PATCH", path, patch)
    assert patched.status == 200
    expected = {**config, "name": "patched", "poll.interval.ms": "70", "format": "json"}
    assert patched.json["config"] == expected == worker.get(path)
    del expected["format"]
    assert worker.ask("PATCH", path, {"format": None}).json["config"] == expected
    refused(worker.ask("PATCH", path, {"tasks.max": "none"}), 400)
    refused(worker.ask("PATCH", "/connectors/unknown/config", {}), 404)
    assert worker.ask("DELETE", "/connectors/patched").status == 204


def test_unknown_connectors_and_paths_are_404(worker: WorkerProcess) -> None:
    assert refused(worker.ask("GET", "/connectors/no"), 404) == "Connector no not found"
    status = worker.ask("GET", "/connectors/no/status")
    assert refused(status, 404) == "No status found for connector no"
    for method, path in (
        ("DELETE", "/connectors/no"),
        ("GET", "/connectors/no/config"),
        ("GET", "/connectors/no/tasks"),
        ("GET", "/connectors/no/offsets"),
        ("PUT", "/connectors/no/pause"),
        ("PUT", "/connectors/no/stop"),
        ("POST", "/connectors/no/restart"),
        ("POST", "/connectors/no/tasks/0/restart"),
        ("GET", "/nothing"),
    ):
        refused(worker.ask(method, path), 404)
    refused(worker.ask("DELETE", "/connectors"), 405)


def test_tasks_are_listed_and_restarted(worker: WorkerProcess, source: dict[str, str]) -> None:
    task = {"id": {"connector": "source", "task": 0}, "config": source}
    assert worker.get("/connectors/source/tasks") == [task]
    status = worker.get("/connectors/source/tasks/0/status")
    assert status == {"id": 0, **running(worker)}
    missing = worker.ask("GET", "/connectors/source/tasks/1/status")
    assert refused(missing, 404) == "No status found for task source-1"
    missing = worker.ask("POST", "/connectors/source/tasks/1/restart")
    assert refused(missing, 404) == "Unknown task: source-1"
    assert worker.ask("POST", "/connectors/source/tasks/0/restart").status == 204
    worker.wait_for_state("source", "RUNNING")


def test_a_restart_answers_as_it_was_asked(worker: WorkerProcess, folder: Path) -> None:
    assert worker.ask("PUT", "/connectors/again/config", config_of(folder)).status == 201
    worker.wait_for_state("again", "RUNNING")
    assert worker.ask("POST", "/connectors/again/restart").status == 204
    only_failed = worker.ask("POST", "/connectors/again/restart?onlyFailed=true&includeTasks=true")
    assert only_failed.status == 202
    assert only_failed.json["tasks"][0]["state"] == "RUNNING"
    with_tasks = worker.ask("POST", "/connectors/again/restart?includeTasks=true")
    assert with_tasks.json["tasks"][0]["state"] == "RESTARTING"
    assert worker.ask("DELETE", "/connectors/again").status == 204


def test_pause_stop_and_resume(worker: WorkerProcess, folder: Path) -> None:
    assert worker.ask("PUT", "/connectors/states/config", config_of(folder)).status == 201
    worker.wait_for_state("states", "RUNNING")
    assert worker.ask("PUT", "/connectors/states/pause").status == 202
    assert worker.wait_for_state("states", "PAUSED")["connector"]["state"] == "PAUSED"
    assert worker.ask("PUT", "/connectors/states/stop").status == 204
    assert worker.wait_for_state("states", "STOPPED")["tasks"] == []
    assert worker.ask("PUT", "/connectors/states/resume").status == 202
    worker.wait_for_state("states", "RUNNING")
    assert worker.ask("DELETE", "/connectors/states").status == 204
    eventually(
        lambda: worker.ask("GET", "/connectors/states/status").status == 404,
        lambda: worker.log_text,
    )


def test_a_failed_task_shows_its_trace(worker: WorkerProcess, folder: Path) -> None:
    broken = folder / "broken"
    broken.mkdir()
    (broken / "a.json").write_text("{nonsense\n")
    config = {**config_of(folder), "path": str(broken), "format": "json"}
    assert worker.ask("PUT", "/connectors/broken/config", config).status == 201
    status = worker.wait_for_state("broken", "FAILED")
    assert status["connector"]["state"] == "RUNNING"
    assert "a.json is not a json file" in status["tasks"][0]["trace"]
    (broken / "a.json").write_text('{"id":1}\n')
    worker.ask("POST", "/connectors/broken/restart?includeTasks=true&onlyFailed=true")
    worker.wait_for_state("broken", "RUNNING")
    assert worker.ask("DELETE", "/connectors/broken").status == 204


def test_topics_are_tracked_and_reset(worker: WorkerProcess, source: dict[str, str]) -> None:
    del source
    used = {"source": {"topics": ["rest-orders"]}}
    eventually(lambda: worker.get("/connectors/source/topics") == used, lambda: worker.log_text)
    assert worker.ask("PUT", "/connectors/source/topics/reset").status == 202
    eventually(
        lambda: worker.get("/connectors/source/topics") == {"source": {"topics": []}},
        lambda: worker.log_text,
    )


def test_offsets_of_a_source_are_read_altered_and_reset(
    worker: WorkerProcess, source: dict[str, str]
) -> None:
    del source
    path = "/connectors/source/offsets"
    (found,) = eventually(lambda: worker.get(path)["offsets"], lambda: worker.log_text)
    assert found["partition"] == {"source": "files"}
    assert STOP_FIRST in refused(worker.ask("DELETE", path), 400)
    assert STOP_FIRST in refused(worker.ask("PATCH", path, {"offsets": [found]}), 400)
    worker.ask("PUT", "/connectors/source/stop")
    worker.wait_for_state("source", "STOPPED")
    assert worker.ask("DELETE", path).json == {
        "message": "The offsets for this connector have been reset successfully"
    }
    assert worker.get(path) == {"offsets": []}
    refused(worker.ask("PATCH", path, {}), 400)
    refused(worker.ask("PATCH", path, {"offsets": [{"partition": {"a": 1}, "offset": {}}]}), 400)
    assert worker.ask("PATCH", path, {"offsets": [found]}).json == {
        "message": "The offsets for this connector have been altered successfully"
    }
    assert worker.get(path) == {"offsets": [found]}
    worker.ask("PUT", "/connectors/source/resume")
    worker.wait_for_state("source", "RUNNING")


def test_offsets_of_a_sink_are_those_of_its_group(
    worker: WorkerProcess, source: dict[str, str], folder: Path
) -> None:
    del source
    config = {
        "connector.class": "FilesSink",
        "topics": "rest-orders",
        "schema": "id bigint, name string",
        "path": str(folder / "out"),
        "format": "json",
    }
    assert worker.ask("PUT", "/connectors/sink/config", config).status == 201
    partition = {"kafka_topic": "rest-orders", "kafka_partition": 0}
    path = "/connectors/sink/offsets"
    (found,) = eventually(lambda: worker.get(path)["offsets"], lambda: worker.log_text)
    assert found == {"partition": partition, "offset": {"kafka_offset": 3}}
    assert [len(each.read_text().splitlines()) for each in (folder / "out").iterdir()] == [3]
    worker.ask("PUT", "/connectors/sink/stop")
    worker.wait_for_state("sink", "STOPPED")
    altered = [{"partition": partition, "offset": {"kafka_offset": 1}}]
    assert worker.ask("PATCH", path, {"offsets": altered}).status == 200
    assert worker.get(path) == {"offsets": altered}
    bad = [{"partition": {"topic": "t"}, "offset": {"kafka_offset": 1}}]
    assert "kafka_topic" in refused(worker.ask("PATCH", path, {"offsets": bad}), 400)
    worker.ask("PUT", "/connectors/sink/resume")
    eventually(lambda: worker.get(path)["offsets"] == [found], lambda: worker.log_text)
    lines = sorted(len(each.read_text().splitlines()) for each in (folder / "out").iterdir())
    assert lines == [2, 3]
    assert worker.ask("DELETE", "/connectors/sink").status == 204


def test_plugins_are_listed_and_validate_configs(worker: WorkerProcess, folder: Path) -> None:
    plugins = worker.get("/connector-plugins")
    files = "headwater.connect.files_connector.FilesSource"
    expected = {"class": files, "type": "source", "version": headwater.__version__}
    assert expected in plugins
    names = [each["name"] for each in worker.get("/connector-plugins/FilesSource/config")]
    assert {"name", "connector.class", "topic", "path", "maxFilesPerTrigger"} <= set(names)
    path = "/connector-plugins/FilesSource/config/validate"
    valid = worker.ask("PUT", path, config_of(folder, name="a")).json
    assert (valid["name"], valid["error_count"]) == (files, 0)
    config = config_of(folder, name="a")
    del config["path"]
    invalid = worker.ask("PUT", path, {**config, "tasks.max": "x"}).json
    errors = {each["value"]["name"]: each["value"]["errors"] for each in invalid["configs"]}
    assert errors["tasks.max"] == ["must be a number of at least 1, not x"]
    other = {**config, "connector.class": "FilesSink"}
    assert "does not match request type" in refused(worker.ask("PUT", path, other), 400)
    refused(worker.ask("PUT", "/connector-plugins/Nothing/config/validate", config), 404)


def test_log_levels_are_shown_and_set(worker: WorkerProcess) -> None:
    assert worker.get("/admin/loggers")["root"] == {"level": "INFO", "last_modified": None}
    path = "/admin/loggers/headwater.connect"
    assert worker.ask("PUT", path, {"level": "DEBUG"}).json == ["headwater.connect"]
    assert worker.get(path)["level"] == "DEBUG"
    assert worker.get(path)["last_modified"] > 0
    assert worker.ask("PUT", f"{path}?scope=cluster", {"level": "WARN"}).status == 204
    eventually(lambda: worker.get(path)["level"] == "WARN", lambda: worker.log_text)
    refused(worker.ask("PUT", path, {}), 400)
    refused(worker.ask("PUT", path, {"level": "LOUD"}), 404)
    refused(worker.ask("GET", "/admin/loggers/no.such.logger"), 404)


def test_bad_bodies_and_foreign_pages_are_refused(worker: WorkerProcess) -> None:
    refused(worker.ask("POST", "/connectors", b"{nonsense"), 400)
    refused(worker.ask("POST", "/connectors", []), 400)
    refused(worker.ask("POST", "/connectors", b"x" * (1 << 20) + b"x"), 413)
    refused(worker.ask("POST", "/connectors", b"{}", headers={"Content-Type": "text/plain"}), 415)
    refused(worker.ask("GET", "/connectors", headers={"Accept": "text/html"}), 406)
    refused(worker.ask("DELETE", "/connectors/a", headers={"Origin": "http://evil.example"}), 403)
    refused(worker.ask("GET", "/connectors", headers={"Host": "evil.example"}), 403)
