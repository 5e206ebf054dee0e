"""Apache Kafka, run as a peer: one broker in KRaft mode, and Kafka's own tools.

Settings are Kafka's defaults except where one node, or a quick test, forces another value; the
same few are given to Headwater, so that both describe the same configuration.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.peers.jars import KAFKA_4_1, Peer
from tests.peers.processes import end, free_port, start_until

NODE_ID: Final = 1
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"

# What both sides are told. One node can hold one replica only.
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


# What lives for a second or two is not worth a second compiler.
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


class ApacheKafka:
    """One broker that is also its own controller, in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        peer: Peer = KAFKA_4_1,
        jvm_options: Sequence[str] | None = None,
        **settings: str,
    ) -> None:
        """`jvm_options` stand in for those of a quick test, which are no good for measuring."""
        self.peer = peer
        self._jvm_options = jvm_options
        self.data = folder / "kafka-data"
        self.port = free_port()
        self._controller_port = free_port()
        self._properties = folder / "server.properties"
        self._log = folder / "kafka.log"
        lines = {**self._settings(), **settings}
        self._properties.write_text("".join(f"{key}={lines[key]}\n" for key in lines))
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        if not self.data.exists():
            self.data.mkdir()
            arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._properties))
            run_class(self.peer, "kafka.tools.StorageTool", *arguments)
        options = self._jvm_options
        command = [*java(self.peer, options=options), "kafka.Kafka", str(self._properties)]
        self._process = start_until(command, lambda line: _STARTED in line, self._log)
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None, "it is not running"
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)
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
        listeners = (
            f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}"
        )
        return {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{self._controller_port}",
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
    """Run a tool's main class to its end; returns what it printed."""
    done = subprocess.run(
        [*java(peer, heap="256m", level="error", options=jvm_options), name, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=_TOOL_TIMEOUT_S,
    )
    assert done.returncode == 0, f"{name} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout
