"""A Connect worker for tests: a child process beside a broker, and its REST API."""

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headwater.common.exceptions import BrokerDidNotStart
from headwater.common.settings.java_properties import format_properties
from headwater.testing.embedded_process import EmbeddedProcess

TIMEOUT_S = 120

_READY = re.compile(r"headwater connect ready on (https?://[^ ]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectResponse:
    """A response of the REST API."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class WorkerProcess(EmbeddedProcess):
    """A process of `headwater connect start`."""

    def __init__(self, bootstrap_servers: str, group: str, **settings: str) -> None:
        """Settings have underscores for dots."""
        super().__init__(
            name="the Connect worker",
            folder_prefix="headwater-connect-",
            log_name="connect.log",
            timeout_s=TIMEOUT_S,
        )
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "config.storage.topic": f"{group}-configs",
            "offset.storage.topic": f"{group}-offsets",
            "offset.storage.partitions": "3",
            "status.storage.topic": f"{group}-status",
            "status.storage.partitions": "2",
            "listeners": "http://127.0.0.1:0",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.url = ""

    def _arguments(self, folder: Path) -> list[str]:
        file = folder / "worker.properties"
        file.write_bytes(format_properties(self._settings))
        return ["connect", "start", "--config", str(file)]

    def _serves(self, line: str) -> None:
        match = _READY.match(line)
        if match is None:
            raise BrokerDidNotStart(f"unexpected first line of the worker: {line!r}")
        self.url = match[1]

    @property
    def worker_id(self) -> str:
        return urlsplit(self.url).netloc

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> ConnectResponse:
        """Send a request; `body` is JSON or bytes."""
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {} if raw is None else {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection(self.worker_id, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, raw, {**sent, **(headers or {})})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return ConnectResponse(status=response.status, headers=found, raw=response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return self.ask("GET", path).json

    def wait_for_state(self, connector: str, state: str) -> dict[str, Any]:
        """Wait until a connector's task has a state; a stopped connector has no task."""

        def current() -> dict[str, Any] | None:
            answer = self.ask("GET", f"/connectors/{connector}/status")
            if answer.status != 200:
                return None
            status: dict[str, Any] = answer.json
            states = [each["state"] for each in status["tasks"]] or [status["connector"]["state"]]
            return status if states == [state] else None

        found: dict[str, Any] = eventually(
            current, lambda: f"{connector} is not {state}:\n{self.log_text}"
        )
        return found


def eventually(look: Callable[[], Any], why: Callable[[], str]) -> Any:
    """Wait until `look` returns something true, and return it."""
    until_s = time.monotonic() + TIMEOUT_S
    pause = threading.Event()
    while not (found := look()):
        assert time.monotonic() < until_s, why()
        # Leave the processor to the processes that are waited for.
        pause.wait(0.1)
    return found
