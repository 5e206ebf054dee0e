"""Clusters of three brokers that are also KRaft controllers, as contenders.

Note: both have the same session timeout of 6 s, which is neither's default. Headwater's quorum has
the shorter election timeout of `headwater cluster start`, Kafka's has its default.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from bench.clusters import BROKERS, BenchCluster, headwater_cluster
from bench.peer_brokers import DEFAULT_JVM, TUNED_SETTINGS
from bench.processes import cpu_seconds_of, resident_bytes_of
from tests.peers.apache_cluster import ApacheCluster

SESSION_MS: Final = 6_000

# Three heaps share this machine's memory.
TUNED_JVM: Final = ("-Xms2G", "-Xmx2G", "-server", "-XX:+UseParallelGC", "-XX:+AlwaysPreTouch")
_REPLICATED: Final = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


class PeerCluster(BenchCluster):
    """Cluster with the cost of all its processes."""

    ready_seconds = 0.0

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self.brokers if each.is_running]

    @property
    def all_cpu_seconds(self) -> float:
        return sum(map(cpu_seconds_of, self.pids))

    @property
    def resident_bytes(self) -> int:
        return sum(map(resident_bytes_of, self.pids))


Start = Callable[[], AbstractContextManager[PeerCluster]]


@contextmanager
def _headwater() -> Iterator[PeerCluster]:
    cluster = headwater_cluster({**_REPLICATED, "broker.session.timeout.ms": SESSION_MS})
    began = time.perf_counter()
    with PeerCluster(cluster) as found:
        found.ready_seconds = time.perf_counter() - began
        yield found


@contextmanager
def _kafka(jvm_options: tuple[str, ...], settings: Mapping[str, str]) -> Iterator[PeerCluster]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        properties = {**_REPLICATED, "broker.session.timeout.ms": str(SESSION_MS), **settings}
        cluster = ApacheCluster(Path(directory), BROKERS, jvm_options, properties)
        cluster.format()
        began = time.perf_counter()
        with PeerCluster(cluster) as found:
            found.ready_seconds = time.perf_counter() - began
            yield found


CONTENDERS: Final[Mapping[str, Start]] = {
    "Headwater": _headwater,
    "Kafka 4.1": lambda: _kafka(DEFAULT_JVM, {}),
    "Kafka 4.1 tuned": lambda: _kafka(TUNED_JVM, TUNED_SETTINGS),
}
