"""A distributed Kafka Connect worker, and Connect's REST API."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.peers.exactly_once import TIMEOUT_S
from tests.peers.jars import KAFKA_CONNECT, Peer
from tests.peers.java_process import JavaProcess
from tests.peers.processes import free_port

# Connect leaves a task that has failed as it is until it is restarted by hand.
TASK_FAILED: Final = "Task threw an uncaught and unrecoverable exception"
_STARTED: Final = "Kafka Connect started"
# A worker answers with 409 while its group rebalances.
_REBALANCING: Final = 409
_SETTINGS: Final = {
    "group.id": "connect",
    "exactly.once.source.support": "enabled",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "offset.storage.partitions": "5",
    "status.storage.partitions": "2",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "service_load",
    # The tasks of a worker that died move at once when it is missed.
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """A connector's task, as the REST API reports it."""

    state: str
    worker: str
    trace: str


class ConnectWorker(JavaProcess):
    """One worker of the group "connect", on its own port."""

    def __init__(
        self,
        servers: str,
        folder: Path,
        name: str,
        *,
        peer: Peer = KAFKA_CONNECT,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] | None = None,
    ) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        properties = folder / f"{name}.properties"
        given = {
            **_SETTINGS,
            "bootstrap.servers": servers,
            "listeners": f"http://{self.address}",
            **(settings or {}),
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        super().__init__(
            peer,
            ("org.apache.kafka.connect.cli.ConnectDistributed", str(properties)),
            folder / f"{name}.log",
            is_ready=lambda line: _STARTED in line,
            fatal=TASK_FAILED,
            level="info",
            jvm_options=jvm_options,
        )

    def put_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, retrying while the group rebalances."""
        until_s = time.monotonic() + TIMEOUT_S
        while not self._put(f"/connectors/{name}/config", config):
            assert time.monotonic() < until_s, self.logged_errors()

    def tasks(self, connector: str) -> list[TaskStatus]:
        """Tasks of a connector; none while the REST API does not answer."""
        try:
            with urlopen(self._url(f"/connectors/{connector}/status"), timeout=TIMEOUT_S) as answer:
                told: dict[str, Any] = json.load(answer)
        except URLError:
            return []
        return [
            TaskStatus(state=task["state"], worker=task["worker_id"], trace=task.get("trace", ""))
            for task in told["tasks"]
        ]

    def _put(self, path: str, body: Mapping[str, str]) -> bool:
        request = Request(
            self._url(path),
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        try:
            with urlopen(request, timeout=TIMEOUT_S):
                return True
        except HTTPError as failure:
            if failure.code == _REBALANCING:
                return False
            raise AssertionError(failure.read().decode()) from failure

    def _url(self, path: str) -> str:
        return f"http://{self.address}{path}"
