"""A KRaft cluster of Headwater controllers and brokers of Apache Kafka.

All are processes of their own, so that a test can kill each of them.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from subprocess import Popen
from types import TracebackType
from typing import Final, Self

from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.network.free_ports import free_ports
from tests.peers.apache_kafka import java, run_class
from tests.peers.jars import KAFKA_4_1
from tests.peers.processes import Launched, ask_to_end, end

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_IDS: Final = (
    "JEXY6aqzQY-32P5TStzaFg",
    "MvDxzVmcRsaTz33bUuRU6A",
    "07R5amHmR32VDA6jHkGbTA",
)
# Quick failovers, so that a test does not wait long for a dead broker.
SESSION_MS: Final = 3_000
_FIRST_BROKER: Final = 10
_STOP_PATIENCE_S: Final = 60


class KraftCluster:
    """Controllers have the ids 0, 1, 2, brokers 10, 11, 12."""

    def __init__(
        self,
        folder: Path,
        *,
        controllers: int,
        brokers: int,
        settings: Mapping[str, str] | None = None,
        broker_settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are those of all nodes."""
        self.folder = folder
        self._settings = dict(settings or {})
        self._broker_settings = dict(broker_settings or {})
        ports = free_ports("127.0.0.1", controllers + brokers)
        self.controller_ports = ports[:controllers]
        self.broker_ports = {
            _FIRST_BROKER + index: port for index, port in enumerate(ports[controllers:])
        }
        self.processes: dict[int, Popen[str]] = {}

    @property
    def broker_ids(self) -> list[int]:
        return list(self.broker_ports)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.broker_ports.values())

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.controller_ports)

    def __enter__(self) -> Self:
        try:
            self._format()
            for number in range(len(self.controller_ports)):
                self.start_controller(number)
            self.start_brokers(self.broker_ids)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for process in self.processes.values():
            end(process)

    def start_controller(self, number: int) -> None:
        config = str(self._config_of(number))
        command = [sys.executable, "-m", "headwater", "start", "--config", config]
        log = self.folder / f"{number}.log"
        launched = Launched(command, lambda line: "headwater ready" in line, log)
        self.processes[number] = launched.once_ready()

    def start_brokers(self, node_ids: Sequence[int]) -> None:
        """Start brokers at once; one is ready when it is unfenced."""
        launched = {}
        for node_id in node_ids:
            command = [*java(KAFKA_4_1), "kafka.Kafka", str(self._config_of(node_id))]
            log = self.folder / f"{node_id}.log"
            launched[node_id] = Launched(command, lambda line: "Kafka Server started" in line, log)
        for node_id, each in launched.items():
            self.processes[node_id] = each.once_ready()

    def kill(self, node_id: int) -> None:
        end(self.processes.pop(node_id))

    def stop(self, node_id: int) -> None:
        ask_to_end(self.processes.pop(node_id), _STOP_PATIENCE_S)

    @contextmanager
    def paused(self, node_id: int) -> Iterator[None]:
        """Suspend a process, as a long garbage collection or a stalled machine does."""
        process = self.processes[node_id]
        process.send_signal(SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(SIGCONT)

    def log_of(self, node_id: int) -> str:
        return (self.folder / f"{node_id}.log").read_text()

    def metadata_log(self, node_id: int) -> bytes:
        """The first segment of a node's metadata log."""
        name = "__cluster_metadata-0/00000000000000000000.log"
        return (self.folder / str(node_id) / name).read_bytes()

    def cluster_tool(self, command: str, *arguments: str) -> str:
        """Run `kafka-cluster`, whose command comes first."""
        servers = ("--bootstrap-server", self.bootstrap_servers)
        name = "org.apache.kafka.tools.ClusterTool"
        return run_class(KAFKA_4_1, name, command, *servers, *arguments)

    def tool(self, name: str, *arguments: str) -> str:
        return run_class(KAFKA_4_1, name, "--bootstrap-server", self.bootstrap_servers, *arguments)

    def controller_tool(self, name: str, *arguments: str) -> str:
        return run_class(
            KAFKA_4_1, name, "--bootstrap-controller", self.bootstrap_controllers, *arguments
        )

    def _config_of(self, node_id: int) -> Path:
        return self.folder / f"{node_id}.properties"

    def _format(self) -> None:
        voters = ",".join(
            f"{number}@127.0.0.1:{port}:{DIRECTORY_IDS[number]}"
            for number, port in enumerate(self.controller_ports)
        )
        for number, port in enumerate(self.controller_ports):
            config = self._write(number, self._controller_settings(number, port))
            options = ["-c", str(config), "-t", CLUSTER_ID, "-I", voters]
            result = CliRunner().invoke(app, ["storage", "format", *options])
            assert result.exit_code == 0, result.output
        for node_id, port in self.broker_ports.items():
            config = self._write(node_id, self._settings_of_broker(node_id, port))
            options = ["-c", str(config), "-t", CLUSTER_ID, "--no-initial-controllers"]
            run_class(KAFKA_4_1, "kafka.tools.StorageTool", "format", *options)

    def _write(self, node_id: int, settings: Mapping[str, str]) -> Path:
        path = self._config_of(node_id)
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def _common_settings(self, node_id: int) -> dict[str, str]:
        return {
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": self.bootstrap_controllers,
            "broker.session.timeout.ms": str(SESSION_MS),
            "log.dirs": str(self.folder / str(node_id)),
            **self._settings,
        }

    def _controller_settings(self, number: int, port: int) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            **self._common_settings(number),
        }

    def _settings_of_broker(self, node_id: int, port: int) -> dict[str, str]:
        factor = str(min(3, len(self.broker_ports)))
        return {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "broker.heartbeat.interval.ms": "500",
            "offsets.topic.replication.factor": factor,
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": factor,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "8000000",
            **self._common_settings(node_id),
            **self._broker_settings,
        }
