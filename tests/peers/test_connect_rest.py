"""The same requests to a Connect worker of Apache Kafka and to one of Headwater, answers compared.

Both workers run on a Headwater broker. Names of classes, worker ids, versions and the texts of
config errors are different; statuses, fields, states and the other messages must be the same.
Log levels are left out: the peers' folder has no log4j, without which Kafka's requests fail.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from headwater.testing import EmbeddedBroker
from tests.connect_worker import WorkerProcess, eventually
from tests.peers.connect_worker import ConnectWorker
from tests.peers.jars import KAFKA_CONNECT

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        KAFKA_CONNECT.absence() is not None, reason=KAFKA_CONNECT.absence() or "it is there"
    ),
]

_TIMEOUT_S: Final = 60
_OURS: Final = {"connector.class": "FilesSource", "topic": "lines", "format": "json"}
_APACHES: Final = {
    "connector.class": "FileStreamSource",
    "topic": "lines",
    # Headwater's sources name their tasks' limit too.
    "tasks.max": "1",
}
_REBALANCING: Final = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A worker, and the config of a source that it can run."""

    name: str
    url: str
    source: dict[str, str]
    log: Callable[[], str]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request, again while a group of Apache Kafka rebalances."""
        found: tuple[int, Any] = eventually(lambda: self._try(method, path, body), self.log)
        return found

    def _try(self, method: str, path: str, body: Any) -> tuple[int, Any] | None:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = Request(self.url + path, data, headers, method=method)
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as answer:
                status, raw = answer.status, answer.read()
        except HTTPError as failure:
            status, raw = failure.code, failure.read()
        found = json.loads(raw) if raw else None
        if status == _REBALANCING and "rebalance" in str(found):
            return None
        return status, found

    def wait_for_state(self, state: str) -> None:
        def is_there() -> bool:
            status, found = self.ask("GET", "/connectors/source/status")
            if status != 200:
                return False
            tasks = [each["state"] for each in found["tasks"]]
            return (found["connector"]["state"], *tasks) in {(state,), (state, state)}

        eventually(is_there, self.log)

    def wait_for_offsets(self) -> None:
        path = "/connectors/source/offsets"
        eventually(lambda: self.ask("GET", path)[1]["offsets"], self.log)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    folder = tmp_path_factory.mktemp("connect")
    (folder / "lines.txt").write_text("one\ntwo\n")
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text('{"line":"one"}\n')
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        servers = broker.bootstrap_servers
        apache = stack.enter_context(_apache(servers, folder))
        ours = stack.enter_context(WorkerProcess(servers, "ours"))
        yield [
            Side(
                name="Apache Kafka",
                url=f"http://{apache.address}",
                source={**_APACHES, "file": str(folder / "lines.txt")},
                log=apache.logged_errors,
            ),
            Side(
                name="Headwater",
                url=ours.url,
                source={**_OURS, "tasks.max": "1", "path": str(folder / "in")},
                log=lambda: ours.log_text,
            ),
        ]


def _apache(servers: str, folder: Path) -> ConnectWorker:
    settings = {
        f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")
    }
    return ConnectWorker(servers, folder, "apache", settings=settings)


def same(sides: list[Side], method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Compare the answers of both; return that of Headwater."""
    theirs, ours = (
        each.ask(method, path, body(each) if callable(body) else body) for each in sides
    )
    assert _comparable(ours) == _comparable(theirs), f"{method} {path}"
    return ours


def _comparable(answer: tuple[int, Any]) -> tuple[int, Any]:
    status, body = answer
    return status, _normal(body)


def _normal(value: Any, name: str = "") -> Any:
    """Replace what must differ: names of classes, workers and files."""
    if name in ("config", "offset", "partition"):
        return sorted(value) if name == "config" and "name" not in value else "..."
    if name in ("worker_id", "version", "commit", "kafka_cluster_id", "last_modified", "trace"):
        return "..."
    if isinstance(value, dict):
        return {key: _normal(each, key) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [_normal(each) for each in value]
    if isinstance(value, str):
        return re.sub(r"following \d+ error.*", "...", value, flags=re.DOTALL)
    return value


def put_source(sides: list[Side]) -> None:
    for each in sides:
        each.ask("PUT", "/connectors/source/config", each.source)
        each.ask("PUT", "/connectors/source/resume")
        each.wait_for_state("RUNNING")


def test_the_root(sides: list[Side]) -> None:
    same(sides, "GET", "/")
    same(sides, "GET", "/health")


def test_a_connector_from_its_creation_to_its_end(sides: list[Side]) -> None:
    same(sides, "POST", "/connectors", lambda side: {"name": "made", "config": side.source})
    same(sides, "POST", "/connectors", lambda side: {"name": "made", "config": side.source})
    same(sides, "GET", "/connectors/made")
    same(sides, "PUT", "/connectors/made/config", lambda side: side.source)
    same(sides, "PATCH", "/connectors/made/config", {"tasks.max": "2"})
    same(sides, "GET", "/connectors")
    same(sides, "DELETE", "/connectors/made")
    same(sides, "DELETE", "/connectors/made")
    same(sides, "GET", "/connectors")


def test_errors(sides: list[Side]) -> None:
    for method, path in (
        ("GET", "/connectors/no"),
        ("GET", "/connectors/no/config"),
        ("GET", "/connectors/no/status"),
        ("GET", "/connectors/no/tasks"),
        ("GET", "/connectors/no/offsets"),
        ("GET", "/connectors/no/tasks/0/status"),
        ("PUT", "/connectors/no/pause"),
        ("PUT", "/connectors/no/resume"),
        ("PUT", "/connectors/no/stop"),
        ("POST", "/connectors/no/restart"),
        ("POST", "/connectors/no/restart?includeTasks=true"),
        ("POST", "/connectors/no/tasks/0/restart"),
        ("GET", "/connectors/no/topics"),
        ("DELETE", "/connectors/no"),
        ("DELETE", "/connectors/no/offsets"),
        ("DELETE", "/connectors"),
    ):
        same(sides, method, path)
    same(sides, "PUT", "/connectors/bad/config", lambda side: {**side.source, "tasks.max": "x"})
    same(sides, "PUT", "/connectors/bad/config", lambda side: {**side.source, "name": "other"})
    same(sides, "PATCH", "/connectors/no/config", {"a": "b"})


def test_states(sides: list[Side]) -> None:
    put_source(sides)
    for path, state in (("pause", "PAUSED"), ("stop", "STOPPED"), ("resume", "RUNNING")):
        same(sides, "PUT", f"/connectors/source/{path}")
        for each in sides:
            each.wait_for_state(state)
        same(sides, "GET", "/connectors/source/status")
        same(sides, "GET", "/connectors/source/tasks")
        same(sides, "GET", "/connectors?expand=status&expand=info")


def test_restarts(sides: list[Side]) -> None:
    put_source(sides)
    same(sides, "POST", "/connectors/source/restart")
    same(sides, "POST", "/connectors/source/restart?includeTasks=true&onlyFailed=true")
    same(sides, "POST", "/connectors/source/tasks/0/restart")
    same(sides, "POST", "/connectors/source/tasks/7/restart")
    same(sides, "GET", "/connectors/source/tasks/7/status")
    for each in sides:
        each.wait_for_state("RUNNING")


def test_offsets_and_topics(sides: list[Side]) -> None:
    put_source(sides)
    for each in sides:
        each.wait_for_offsets()
    same(sides, "GET", "/connectors/source/offsets")
    same(sides, "DELETE", "/connectors/source/offsets")
    same(sides, "GET", "/connectors/source/topics")
    same(sides, "PUT", "/connectors/source/topics/reset")
    same(sides, "PUT", "/connectors/source/stop")
    for each in sides:
        each.wait_for_state("STOPPED")
    same(sides, "PATCH", "/connectors/source/offsets", {"offsets": []})
    same(sides, "DELETE", "/connectors/source/offsets")
    same(sides, "GET", "/connectors/source/offsets")
