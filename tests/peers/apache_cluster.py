"""Several brokers of Apache Kafka in KRaft mode, each also a controller.

It has the interface of `headwater.testing.EmbeddedCluster`.

Note: the nodes are started from one thread (see `tests.peers.processes`), yet all at once, because
a node is only ready when a majority of them runs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.peers.apache_kafka import ApacheKafka, Seat
from tests.peers.jars import KAFKA_4_1, Peer
from tests.peers.processes import free_port


class ApacheNode(ApacheKafka):
    """One node; `stop` is a controlled shutdown, as for Headwater's brokers."""

    def kill(self) -> None:
        super().stop()

    def stop(self) -> None:
        self.retire()


class ApacheCluster:
    """Node ids start at 0."""

    def __init__(
        self,
        folder: Path,
        count: int,
        jvm_options: Sequence[str] | None = None,
        settings: Mapping[str, str] | None = None,
        peer: Peer = KAFKA_4_1,
    ) -> None:
        ports = {number: free_port() for number in range(count)}
        self.brokers: list[ApacheNode] = []
        for number in range(count):
            home = folder / f"node-{number}"
            home.mkdir()
            seat = Seat(number, ports)
            self.brokers.append(ApacheNode(home, peer, jvm_options, settings, seat=seat))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def format(self) -> None:
        for broker in self.brokers:
            broker.format()

    def start(self) -> None:
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.await_ready()

    def close(self) -> None:
        for broker in self.brokers:
            broker.kill()
