"""Clusters for benchmarks: three brokers and a ZooKeeper, and what a writer hears of them.

What a reader would get wrong: a cluster's processes share this machine with the client, so rates of
three brokers on two cores say what replication costs, and not what three machines would do.
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
PATIENCE_S: Final = 180

_METADATA_VERSION: Final = 9
# A killed leader is missed at once, and its partitions flow again when records do.
_SHOWN_S: Final = 3.0
_FLOWS_S: Final = 0.5
_LOOK_S: Final = 0.05
_BETWEEN_RECORDS_S: Final = 0.005


class AnyBroker(Protocol):
    """A broker of Headwater or of Apache Kafka, in a process of its own."""

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
    """Whose brokers have the ids from 0."""

    @property
    def brokers(self) -> Sequence[AnyBroker]: ...

    @property
    def bootstrap_servers(self) -> str: ...

    def start(self) -> object: ...

    def close(self) -> None: ...


def headwater_cluster(settings: Mapping[str, Value] | None = None) -> EmbeddedCluster:
    # Not the session's, which may be short: a start is not what is measured.
    patient: dict[str, Value] = {"zookeeper.connection.timeout.ms": PATIENCE_S * 1_000}
    return EmbeddedCluster(BROKERS, {**patient, **(settings or {})}, patience_s=PATIENCE_S)


class BenchCluster:
    """A cluster, the CPU time of its brokers, and its topics."""

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
        """CPU time of each broker that runs."""
        return [cpu_seconds_of(each.pid) for each in self.brokers if each.is_running]

    def new_topics(self, *names: str, partitions: int = 1, replicas: int = BROKERS) -> None:
        """Make topics, and wait until all brokers know all leaders, and all is in sync."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 2})
        topics = [NewTopic(name, partitions, replicas) for name in names]
        for made in admin.create_topics(topics, request_timeout=PATIENCE_S).values():
            made.result(timeout=PATIENCE_S)
        for each in range(BROKERS):
            self.await_in_sync(*names, via=each, count=len(names) * partitions * replicas)

    def await_in_sync(self, *topics: str, via: int, count: int) -> None:
        """Wait until one broker knows of so many replicas in sync."""
        await_true(
            lambda: sum(len(each.isr_nodes) for each in self.partitions(*topics, via=via)) == count
        )

    def leader_of(self, topic: str) -> int:
        """Of the topic's first partition."""
        (via, *_) = (each for each, one in enumerate(self.brokers) if one.is_running)
        return self.partitions(topic, via=via)[0].leader_id

    def partitions(self, *topics: str, via: int) -> list[MetadataResponsePartition]:
        """What one broker says of the partitions of topics, or of all there are."""
        asked = tuple(MetadataRequestTopic(name=name) for name in topics) or None
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response = ask(self.brokers[via].port, request, _METADATA_VERSION)
        assert isinstance(response, MetadataResponse)
        return [each for topic in response.topics for each in topic.partitions]


class SteadyWriter:
    """Writes a record every few milliseconds with acks=all, and notes when each is acknowledged."""

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
        """How long nothing was acknowledged, and when that was over."""
        times = [since_s, *(each for each in self.acknowledged_s if each > since_s)]
        pauses = [(after - before, after) for before, after in pairwise(times)]
        return max(pauses, default=(0.0, since_s))

    def has_recovered(self, since_s: float) -> bool:
        """Whether records are acknowledged, so long after something that it has surely shown."""
        now_s = time.monotonic()
        return now_s > since_s + _SHOWN_S and self.acknowledged_s[-1] > now_s - _FLOWS_S

    def _write(self) -> None:
        while not self._is_over.is_set():
            self._producer.produce(self._topic, b"x", partition=0, on_delivery=self._delivered)
            self._producer.poll(_BETWEEN_RECORDS_S)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged_s.append(time.monotonic())
        else:
            self.refused.append(error)


def await_true(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > until:
            raise TimeoutError("it has not come about")
        time.sleep(_LOOK_S)
