"""Cost of a controller failover and a broker failure in a large cluster.

The controller and the metadata caches of all brokers are the shipped code, in one process; the
store accepts every write, and messages are encoded and decoded without a network. So the figures
are steps and CPU time, not waiting: network and ZooKeeper are not included.

Note: the brokers' time would be spent on as many machines as there are brokers, and is reported for
one of them.
"""

import gc
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.harness import Bench
from headwater.common.ids import NodeId, TopicId
from headwater.controller.controller import Controller
from headwater.controller.replica_placer import place
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import (
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    ControllerElected,
    MetadataChange,
    TopicCreated,
    apply,
)
from headwater.metadata.cluster_image import (
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    TopicImage,
    Version,
)
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.metadata_cache import MetadataCache
from headwater.metadata.ports.inter_broker_client import OnResponse, Purpose
from headwater.metadata.ports.liveness import NoLiveness
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, write
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headwater.protocol.messages.stop_replica import StopReplicaRequest
from headwater.protocol.messages.update_metadata import UpdateMetadataRequest
from headwater.protocol.older_versions import Message

PARTITIONS_OF_A_TOPIC: Final = 100
REPLICAS: Final = 3
PAGE_BYTES: Final = 4_096
_MIB: Final = 2**20


def measure(bench: Bench) -> None:
    """Measure two sizes: a figure that is equal in both does not grow with the cluster."""
    for broker_count, partition_count in ((25, 10_000), (50, 20_000)):
        cluster = Cluster(broker_count, partition_count)
        size = f"{broker_count} brokers, {partition_count:,} partitions"
        cluster.take_over()
        _record(bench, f"takeover, {size}", cluster.finish())
        cluster.kill(NodeId(broker_count - 1))
        _record(bench, f"a broker's death, {size}", cluster.finish())
        grown = cluster.memory_with_brokers - cluster.memory_before
        bench.record(f"memory of an image, {size}", grown / broker_count / _MIB, "MiB")


def _record(bench: Bench, name: str, cost: "Cost") -> None:
    bench.record(f"{name}: writes to the store", cost.write_count, "")
    bench.record(f"{name}: changes of partitions", cost.fact_count, "")
    bench.record(f"{name}: requests", cost.request_count, "")
    bench.record(f"{name}: bytes sent", cost.sent_bytes / 1e6, "MB")
    bench.record(f"{name}: the controller decides and tells", cost.deciding_s, "s")
    bench.record(f"{name}: its longest turn", 1000 * cost.longest_s, "ms")
    bench.record(f"{name}: messages become bytes", cost.writing_s, "s")
    one = statistics.median(cost.serving_s.values())
    bench.record(f"{name}: one broker reads and takes them", 1000 * one, "ms")


@dataclass(slots=True)
class Cost:
    """Cost since the last `finish`."""

    write_count: int = 0
    fact_count: int = 0
    request_count: int = 0
    sent_bytes: int = 0
    deciding_s: float = 0.0
    longest_s: float = 0.0
    writing_s: float = 0.0
    serving_s: dict[NodeId, float] = field(default_factory=dict)

    def decide(self, action: Callable[[], object]) -> None:
        """Run one event of the controller and measure it."""
        started = time.process_time()
        action()
        spent = time.process_time() - started
        self.deciding_s += spent
        self.longest_s = max(self.longest_s, spent)


class Cluster:
    """Metadata caches of all brokers, and a controller that is about to be elected."""

    def __init__(self, broker_count: int, partition_count: int) -> None:
        self.cost = Cost()
        self.image = new_image(broker_count, partition_count)
        self.turns: deque[Callable[[], object]] = deque()
        self.mail: deque[Callable[[], object]] = deque()
        self.memory_before = _memory_bytes()
        self.metadata_caches: dict[NodeId, MetadataCache] = {}
        for node_id, broker in self.image.brokers.items():
            metadata_cache = MetadataCache(self.image, _ignore_changes, node_id=node_id)
            metadata_cache.registered(broker.epoch)
            self.metadata_caches[node_id] = metadata_cache
        self.leading = Controller(
            static=StaticConfig.parse({"auto.leader.rebalance.enable": "false"}),
            store=_AgreeingStore(self),
            inter_broker_client=self,
            image=self.image,
            liveness=NoLiveness(),
            call_later=lambda _, action: self.turns.append(action),
            on_broker_ended=_fail,
            on_resigned=_fail,
        )
        self.memory_with_brokers = 0

    def take_over(self) -> None:
        self.turns.append(self.leading.start)

    def kill(self, node_id: NodeId) -> None:
        del self.metadata_caches[node_id]
        self.turns.append(partial(self.leading.store_changed, [BrokerGone(node_id)]))

    def finish(self) -> Cost:
        """Run until every broker has received everything; return the cost."""
        while self.turns or self.mail:
            if self.turns:
                self.cost.decide(self.turns.popleft())
            else:
                self.mail.popleft()()
        assert self.leading.is_idle
        for metadata_cache in self.metadata_caches.values():
            assert metadata_cache.image.topics == self.leading.image.topics
        self.memory_with_brokers = self.memory_with_brokers or _memory_bytes()
        cost, self.cost = self.cost, Cost()
        return cost

    # Inter-broker client: each broker answers immediately.

    def send_request(
        self,
        node_id: NodeId,
        request: Message,
        *,
        purpose: Purpose,  # noqa: ARG002
        timeout_ms: int,  # noqa: ARG002
        then: OnResponse,
        on_error: Failed,  # noqa: ARG002
    ) -> None:
        self.mail.append(partial(self._carry, node_id, request, then))

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        raise AssertionError(f"unexpected drop of {node_id} {purpose}")

    def _carry(self, node_id: NodeId, request: Message, then: OnResponse) -> None:
        version = APIS[request.api].newest
        started = time.process_time()
        (body,) = write(request, version)
        assert isinstance(body, bytearray)
        written = time.process_time()
        response = self._serve(node_id, read(type(request), version, memoryview(body)))
        served = time.process_time()
        cost = self.cost
        cost.request_count += 1
        cost.sent_bytes += len(body)
        cost.writing_s += written - started
        cost.serving_s[node_id] = cost.serving_s.get(node_id, 0.0) + served - written
        self.turns.append(partial(then, response))

    def _serve(self, node_id: NodeId, request: Message) -> Message:
        metadata_cache = self.metadata_caches[node_id]
        match request:
            case UpdateMetadataRequest():
                return metadata_cache.update_metadata(request)
            case LeaderAndIsrRequest():
                return metadata_cache.leader_and_isr(request)
            case StopReplicaRequest():
                return metadata_cache.stop_replica(request)
        raise AssertionError(f"unexpected request {request}")


class _AgreeingStore:
    """Metadata store that accepts every write of the controller."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,  # noqa: ARG002
    ) -> None:
        self._cluster.cost.write_count += 1
        self._cluster.cost.fact_count += len(changes)
        version = fence._replace(sequence=fence.sequence + 1)
        self._cluster.turns.append(partial(then, version))


def new_image(broker_count: int, partition_count: int) -> ClusterImage:
    """Return an image as left by a former controller that failed, and its broker with it."""
    dead = NodeId(broker_count)
    brokers = {
        node_id: BrokerRegistration(
            node_id=node_id,
            epoch=node_id + 1,
            rack=f"rack-{node_id % 5}",
            endpoints=(BrokerEndpoint(listener="PLAINTEXT", host=f"broker-{node_id}", port=9092),),
        )
        for node_id in map(NodeId, range(broker_count + 1))
    }
    changes: list[MetadataChange] = [ControllerElected(NodeId(0))]
    for broker in brokers.values():
        changes.append(BrokerAdmitted(broker.node_id, broker.epoch))
        changes.append(BrokerRegistered(broker))
    for number in range(partition_count // PARTITIONS_OF_A_TOPIC):
        replicas = place(
            brokers,
            partition_count=PARTITIONS_OF_A_TOPIC,
            replication_factor=REPLICAS,
            rng=_Turning(number),
        )
        topic_id = TopicId(number.to_bytes(16, "big"))
        partitions = tuple(map(new_partition, replicas))
        topic = TopicImage(name=f"topic-{number}", topic_id=topic_id, partitions=partitions)
        changes.append(TopicCreated(topic))
    image = apply(ClusterImage(cluster_id="bench"), changes, Version(7, 0))
    return replace(image, brokers={key: each for key, each in brokers.items() if key != dead})


class _Turning:
    """Random source that starts with another number for every topic."""

    def __init__(self, number: int) -> None:
        self._number = number

    def below(self, limit: int) -> int:
        return 7 * self._number % limit

    def bytes(self, count: int) -> bytes:
        return bytes(count)


def _memory_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES


def _ignore_changes(image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
    """Ignore changes: what a broker does with them is measured elsewhere."""


def _fail(error: object) -> None:
    raise AssertionError(f"nothing fails here: {error}")
