"""KRaft controllers and brokers of either kind, with one role each."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.peers.apache_kafka import CLUSTER_ID, java, run_class
from tests.peers.jars import KAFKA_4_1
from tests.peers.processes import Launched, ask_to_end, end, free_port

SETTINGS: Final[Mapping[str, str]] = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # The death of a broker is noticed sooner than with Kafka's default of 9 s.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
_STOP_PATIENCE_S: Final = 60
_HEADWATER: Final = (sys.executable, "-m", "headwater")


class KRaftNode:
    """A process that keeps its directory and port from start to start."""

    def __init__(self, folder: Path, node_id: int, settings: Mapping[str, str]) -> None:
        self.folder = folder / f"node-{node_id}"
        self.folder.mkdir()
        self.node_id = node_id
        self.data = self.folder / "data"
        self.port = free_port()
        self.log = self.folder / "node.log"
        self.properties = self.folder / "server.properties"
        self.configure({"node.id": str(node_id), "log.dirs": str(self.data), **settings})
        self._launched: Launched | None = None
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def configure(self, settings: Mapping[str, str]) -> None:
        lines = {**SETTINGS, **settings}
        self.properties.write_text("".join(f"{key}={lines[key]}\n" for key in lines))

    def format(self) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self, line: str) -> bool:
        raise NotImplementedError

    def launch(self) -> None:
        if not (self.data / "meta.properties").exists():
            self.format()
        self._launched = Launched(self.command(), self.is_ready, self.log)

    def await_ready(self) -> None:
        assert self._launched is not None
        self._process = self._launched.once_ready()

    def start(self) -> Self:
        self.launch()
        self.await_ready()
        return self

    def kill(self) -> None:
        if self._process is not None:
            end(self._process)
            self._process = None

    def stop(self) -> int:
        """Stop it (a broker with a controlled shutdown); return its exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        ask_to_end(process, _STOP_PATIENCE_S)
        return process.returncode

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class _ApacheNode(KRaftNode):
    format_options: tuple[str, ...] = ()

    def format(self) -> None:
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self.properties), *self.format_options)
        run_class(KAFKA_4_1, "kafka.tools.StorageTool", *arguments)

    def command(self) -> list[str]:
        return [*java(KAFKA_4_1), "kafka.Kafka", str(self.properties)]

    def is_ready(self, line: str) -> bool:
        return "Kafka Server started" in line


class ApacheController(_ApacheNode):
    """The only controller of its cluster."""

    format_options = ("--standalone",)

    def __init__(
        self, folder: Path, node_id: int = 100, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder, node_id, {})
        self.configure(
            {
                "process.roles": "controller",
                "node.id": str(node_id),
                "listeners": f"CONTROLLER://{self.address}",
                "controller.quorum.bootstrap.servers": self.address,
                "log.dirs": str(self.data),
                **(settings or {}),
            }
        )


def _broker_settings(
    node: KRaftNode, controllers: str, settings: Mapping[str, str]
) -> dict[str, str]:
    return {
        "process.roles": "broker",
        "node.id": str(node.node_id),
        "listeners": f"PLAINTEXT://{node.address}",
        "controller.quorum.bootstrap.servers": controllers,
        "log.dirs": str(node.data),
        **settings,
    }


class ApacheBroker(_ApacheNode):
    format_options = ("--no-initial-controllers",)

    def __init__(
        self, folder: Path, node_id: int, controllers: str, settings: Mapping[str, str]
    ) -> None:
        super().__init__(folder, node_id, {})
        self.configure(_broker_settings(self, controllers, settings))


class HeadwaterKRaftBroker(KRaftNode):
    def __init__(
        self, folder: Path, node_id: int, controllers: str, settings: Mapping[str, str]
    ) -> None:
        super().__init__(folder, node_id, {})
        self.configure(_broker_settings(self, controllers, settings))

    def format(self) -> None:
        command = [*_HEADWATER, "storage", "format", "-t", CLUSTER_ID]
        command += ["-c", str(self.properties), "--no-initial-controllers"]
        subprocess.run(command, check=True, capture_output=True)

    def command(self) -> list[str]:
        return [*_HEADWATER, "start", "--config", str(self.properties)]

    def is_ready(self, line: str) -> bool:
        return line.startswith("headwater ready on")
