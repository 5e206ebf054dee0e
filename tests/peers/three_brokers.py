"""Clusters of three brokers, of Headwater and Apache Kafka, for tests that kill one of them.

Every topic has three replicas and `min.insync.replicas=2`, so the death of one broker may delay a
client, but must not lose, duplicate or reorder records.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from headwater.testing import EmbeddedCluster
from tests.peers.apache_cluster import ApacheCluster

HEADWATER: Final = "Headwater"
APACHE_KAFKA: Final = "Apache Kafka"
# The second one is the control: a test that fails on Apache Kafka proves nothing about Headwater.
SYSTEMS: Final = (HEADWATER, APACHE_KAFKA)

_TIMEOUT_S: Final = 180
_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "6",
}


class Broker(Protocol):
    """A broker that keeps its port and log directory when it is killed and restarted."""

    def start(self) -> object: ...

    def kill(self) -> None: ...


class Cluster(Protocol):
    """Three brokers with the ids 0, 1 and 2."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def brokers(self) -> Sequence[Broker]: ...


@contextmanager
def three_brokers(system: str, folder: Path) -> Iterator[Cluster]:
    """Run a cluster of one of the `SYSTEMS`. The brokers' logs stay in the folder."""
    folder.mkdir()
    if system == HEADWATER:
        with _headwater(folder) as ours:
            yield ours
        return
    theirs = ApacheCluster(folder, 3, settings=_SETTINGS)
    try:
        theirs.format()
        theirs.start()
        yield theirs
    finally:
        theirs.close()


@contextmanager
def _headwater(folder: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, _SETTINGS, timeout_s=_TIMEOUT_S) as cluster:
        try:
            yield cluster
        finally:
            for number, broker in enumerate(cluster.brokers):
                (folder / f"broker-{number}.log").write_text(broker.log_text)
        for broker in cluster.brokers:
            assert "Traceback" not in broker.log_text, broker.log_text
