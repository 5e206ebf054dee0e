"""Apache Kafka, run as a peer: brokers in KRaft mode, and Kafka's own tools.

Settings are Kafka's defaults except where one node, or a quick test, forces another value; the
same few are given to Headwater, so that both describe the same configuration.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.peers.jars import KAFKA_4_1, Peer
from tests.peers.processes import Launched, ask_to_end, end, free_port

NODE_ID: Final = 1
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"

# Settings of both systems. One node can only hold one replica.
COMMON_SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
}
_ONE_NODE_OF_KAFKA: Final[Mapping[str, str]] = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "8000000",
}
_STARTED: Final = "Kafka Server started"
_TOOL_TIMEOUT_S: Final = 120
_STOP_TIMEOUT_S: Final = 60


# The second JIT compiler does not pay off for tools that run for a second or two.
_SHORT_LIVED: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def java(
    peer: Peer,
    *,
    heap: str = "512m",
    level: str = "warn",
    options: Sequence[str] | None = None,
) -> list[str]:
    logger = "-Dorg.slf4j.simpleLogger"
    return [
        "java",
        *((f"-Xmx{heap}", *_SHORT_LIVED) if options is None else options),
        f"{logger}.logFile=System.out",
        f"{logger}.defaultLogLevel={level}",
        f"{logger}.log.kafka.server.KafkaRaftServer=info",
        "-cp",
        peer.class_path,
    ]


@dataclass(frozen=True, slots=True)
class Seat:
    """A node's place in the controller quorum: its id, and the port of each node."""

    node_id: int
    controller_ports: Mapping[int, int]

    @property
    def voters(self) -> str:
        return ",".join(f"{id_}@127.0.0.1:{port}" for id_, port in self.controller_ports.items())


class ApacheKafka:
    """One broker that is also a controller, in its own directory; a single node without a seat."""

    def __init__(
        self,
        folder: Path,
        peer: Peer = KAFKA_4_1,
        jvm_options: Sequence[str] | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        seat: Seat | None = None,
    ) -> None:
        """`jvm_options` replace those of a quick test, which are unsuitable for benchmarks."""
        self.peer = peer
        self._jvm_options = jvm_options
        self._seat = seat or Seat(NODE_ID, {NODE_ID: free_port()})
        self.data = folder / "kafka-data"
        self.port = free_port()
        self._properties = folder / "server.properties"
        self._log = folder / "kafka.log"
        lines = {**self._settings(), **(settings or {})}
        self._properties.write_text("".join(f"{key}={lines[key]}\n" for key in lines))
        self._launched: Launched | None = None
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it is not running"
        return self._process.pid

    def format(self) -> None:
        """Format the storage, which `launch` does if necessary."""
        if not self.data.exists():
            self.data.mkdir()
            arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._properties))
            run_class(self.peer, "kafka.tools.StorageTool", *arguments)

    def launch(self) -> None:
        """Start without waiting; one of several nodes is only ready when most of them run."""
        self.format()
        options = self._jvm_options
        command = [*java(self.peer, options=options), "kafka.Kafka", str(self._properties)]
        self._launched = Launched(command, lambda line: _STARTED in line, self._log)

    def await_ready(self) -> None:
        assert self._launched is not None, "it was not launched"
        self._process = self._launched.once_ready()

    def start(self) -> Self:
        self.launch()
        self.await_ready()
        return self

    def stop(self) -> None:
        """Kill it, as a quick test ends it."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def retire(self) -> None:
        """Stop with a controlled shutdown."""
        if self._process is not None:
            ask_to_end(self._process, _STOP_TIMEOUT_S)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _settings(self) -> dict[str, str]:
        seat = self._seat
        controller_port = seat.controller_ports[seat.node_id]
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": str(seat.node_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": seat.voters,
            "log.dirs": str(self.data),
            **COMMON_SETTINGS,
            **_ONE_NODE_OF_KAFKA,
        }


def run_class(
    peer: Peer,
    name: str,
    *arguments: str,
    given: str = "",
    jvm_options: Sequence[str] | None = None,
) -> str:
    """Run a tool's main class to its end and return its output."""
    done = subprocess.run(
        [*java(peer, heap="256m", level="error", options=jvm_options), name, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=_TOOL_TIMEOUT_S,
    )
    assert done.returncode == 0, f"{name} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout
