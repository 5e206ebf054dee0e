"""Clusters of three brokers for benchmarks, and a steady producer.

Note: a cluster's processes share this machine with the client, so rates of three brokers on two
cores show the cost of replication, not what three machines would achieve.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Final, Protocol, Self

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.processes import cpu_seconds_of
from bench.raw_requests import ask
from headwater.common.settings.setting_types import Value
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from headwater.testing.embedded_cluster import EmbeddedCluster

BROKERS: Final = 3
TIMEOUT_S: Final = 180

_METADATA_VERSION: Final = 9
# A killed leader is noticed at once; its partitions have recovered when records are acknowledged
# again.
_SHOWN_S: Final = 3.0
_FLOWS_S: Final = 0.5
_LOOK_S: Final = 0.05
_BETWEEN_RECORDS_S: Final = 0.005


class AnyBroker(Protocol):
    """Broker of Headwater or Apache Kafka in its own process."""

    @property
    def pid(self) -> int: ...

    @property
    def port(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    def start(self) -> object: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class AnyCluster(Protocol):
    """Cluster whose brokers have ids from 0."""

    @property
    def brokers(self) -> Sequence[AnyBroker]: ...

    @property
    def bootstrap_servers(self) -> str: ...

    def start(self) -> object: ...

    def close(self) -> None: ...


def headwater_cluster(
    settings: Mapping[str, Value] | None = None, *, zookeeper: bool = False
) -> EmbeddedCluster:
    if not zookeeper:
        return EmbeddedCluster(BROKERS, settings, timeout_s=TIMEOUT_S)
    # Not the session timeout, which may be short: the start is not measured.
    patient: dict[str, Value] = {"zookeeper.connection.timeout.ms": TIMEOUT_S * 1_000}
    return EmbeddedCluster(
        BROKERS, {**patient, **(settings or {})}, zookeeper=True, timeout_s=TIMEOUT_S
    )


class BenchCluster:
    """Cluster with the CPU time of its brokers, and its topics."""

    def __init__(self, cluster: AnyCluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> Self:
        self._cluster.start()
        self.servers = self._cluster.bootstrap_servers
        self.brokers = self._cluster.brokers
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._cluster.close()

    @property
    def cpu_seconds(self) -> list[float]:
        """CPU time of each running broker."""
        return [cpu_seconds_of(each.pid) for each in self.brokers if each.is_running]

    def new_topics(self, *names: str, partitions: int = 1, replicas: int = BROKERS) -> None:
        """Create topics, and wait until all brokers know all leaders and every ISR is complete."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 2})
        topics = [NewTopic(name, partitions, replicas) for name in names]
        for made in admin.create_topics(topics, request_timeout=TIMEOUT_S).values():
            made.result(timeout=TIMEOUT_S)
        for each in range(BROKERS):
            self.await_in_sync(*names, via=each, count=len(names) * partitions * replicas)

    def await_in_sync(self, *topics: str, via: int, count: int) -> None:
        """Wait until a broker reports `count` replicas in ISRs."""
        await_true(
            lambda: sum(len(each.isr_nodes) for each in self.partitions(*topics, via=via)) == count
        )

    def leader_of(self, topic: str) -> int:
        """Return the leader of the topic's first partition."""
        (via, *_) = (each for each, one in enumerate(self.brokers) if one.is_running)
        return self.partitions(topic, via=via)[0].leader_id

    def partitions(self, *topics: str, via: int) -> list[MetadataResponsePartition]:
        """Return a broker's metadata of topics' partitions, or of all."""
        asked = tuple(MetadataRequestTopic(name=name) for name in topics) or None
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response = ask(self.brokers[via].port, request, _METADATA_VERSION)
        assert isinstance(response, MetadataResponse)
        return [each for topic in response.topics for each in topic.partitions]


class SteadyWriter:
    """Writes a record every few milliseconds with acks=all."""

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 2,
            }
        )
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged_s: list[float] = []
        self.refused: list[KafkaError] = []

    def __enter__(self) -> Self:
        self._thread.start()
        await_true(lambda: bool(self.acknowledged_s))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def longest_pause(self, since_s: float) -> tuple[float, float]:
        """Return the longest time without an acknowledgement, and when it ended."""
        times = [since_s, *(each for each in self.acknowledged_s if each > since_s)]
        pauses = [(after - before, after) for before, after in pairwise(times)]
        return max(pauses, default=(0.0, since_s))

    def has_recovered(self, since_s: float) -> bool:
        """Return whether records are acknowledged, long enough after the fault."""
        now_s = time.monotonic()
        return now_s > since_s + _SHOWN_S and self.acknowledged_s[-1] > now_s - _FLOWS_S

    def _write(self) -> None:
        while not self._is_over.is_set():
            self._producer.produce(self._topic, b"x", partition=0, on_delivery=self._delivered)
            self._producer.poll(_BETWEEN_RECORDS_S)
        self._producer.flush(TIMEOUT_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged_s.append(time.monotonic())
        else:
            self.refused.append(error)


def await_true(what: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not what():
        if time.monotonic() > until:
            raise TimeoutError("it has not come about")
        time.sleep(_LOOK_S)
