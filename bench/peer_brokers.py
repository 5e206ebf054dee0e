"""Headwater and Apache Kafka as contenders: brokers in their own process and directory.

Note: Kafka runs twice. Once with the JVM options of its own start script, as most users do; once
with more heap and with threads and buffers for a small machine, because a comparison with a badly
configured competitor is worthless.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from bench.processes import broker, cpu_seconds_of, resident_bytes_of
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.jars import KAFKA_4_1

# Options of Kafka's own start script.
DEFAULT_JVM: Final = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
TUNED_JVM: Final = ("-Xms4G", "-Xmx4G", "-server", "-XX:+UseParallelGC", "-XX:+AlwaysPreTouch")
TUNED_SETTINGS: Final = {
    "num.network.threads": "2",
    "num.io.threads": "2",
    "socket.send.buffer.bytes": "-1",
    "socket.receive.buffer.bytes": "-1",
}


class PeerBroker(Protocol):
    """Running broker, as the loads need it."""

    @property
    def port(self) -> int: ...

    @property
    def address(self) -> str: ...

    @property
    def ready_seconds(self) -> float: ...

    @property
    def cpu_seconds(self) -> float: ...

    @property
    def resident_bytes(self) -> int: ...


Start = Callable[[], AbstractContextManager[PeerBroker]]


class _Kafka:
    def __init__(self, kafka: ApacheKafka, ready_seconds: float) -> None:
        self._kafka = kafka
        self.port = kafka.port
        self.address = kafka.bootstrap_servers
        self.ready_seconds = ready_seconds

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds_of(self._kafka.pid)

    @property
    def resident_bytes(self) -> int:
        return resident_bytes_of(self._kafka.pid)


@contextmanager
def _headwater() -> Iterator[PeerBroker]:
    with broker() as (server, _):
        yield server


@contextmanager
def _kafka(jvm_options: tuple[str, ...], settings: Mapping[str, str]) -> Iterator[PeerBroker]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        kafka = ApacheKafka(Path(directory), KAFKA_4_1, jvm_options, settings)
        # Not part of the start time. And a second start would wait until the first one's session
        # expires.
        kafka.format()
        began = time.perf_counter()
        with kafka:
            yield _Kafka(kafka, time.perf_counter() - began)


CONTENDERS: Final[Mapping[str, Start]] = {
    "Headwater": _headwater,
    "Kafka 4.1": lambda: _kafka(DEFAULT_JVM, {}),
    "Kafka 4.1 tuned": lambda: _kafka(TUNED_JVM, TUNED_SETTINGS),
}
