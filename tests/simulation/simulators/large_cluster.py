"""Fifty brokers and twenty thousand partitions in one process, with all steps counted.

Elections, the controller, its requests, the metadata caches and the ZooKeeper store are the shipped
code; ZooKeeper is a tree in memory, the network and time are the test's. Brokers have no logs: only
the controller's cost is counted.

Note: these are counts, not times. The network of the tests encodes every message for every broker,
which the shipped one does once for all.
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from headwater.broker.node.cluster_membership import ClusterMembership
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicId
from headwater.controller.controller import Controller
from headwater.controller.replica_placer import place
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import MetadataChange, TopicCreated
from headwater.metadata.cluster_image import NO_LEADER, BrokerEndpoint, ClusterImage, TopicImage
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.metadata_cache import MetadataCache
from headwater.metadata.ports.liveness import NoLiveness
from headwater.metadata.ports.metadata_store import Registration
from headwater.metadata_store.zookeeper.zookeeper_client import FailedOperation, Operation
from headwater.metadata_store.zookeeper.zookeeper_store import ZooKeeperStore
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headwater.protocol.messages.stop_replica import StopReplicaRequest
from headwater.protocol.messages.update_metadata import UpdateMetadataRequest
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.fake_network import FakeNetwork, Reply
from tests.simulation.fakes.fake_zookeeper import FakeZooKeeper
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.fakes.virtual_time import VirtualTime
from tests.simulation.labs.cluster_lab import CLUSTER_ID
from tests.simulation.worlds.replica_nodes import NodeClock

PARTITIONS_OF_A_TOPIC: Final = 100
REPLICAS: Final = 3
SESSION_MS: Final = 6_000
_TOPICS_AT_ONCE: Final = 10
_PAGE_BYTES: Final = 4_096
_LOOK_MS: Final = 50
_TIMEOUT_MS: Final = 120_000
_SETTINGS: Final = {"auto.leader.rebalance.enable": "false"}


@dataclass
class CountedZooKeeper(FakeZooKeeper):
    """Answers in virtual time and counts requests."""

    time: VirtualTime = field(default_factory=lambda: VirtualTime(random.Random(1)))
    multi_count: int = 0
    written_count: int = 0
    watch_count: int = 0

    def later(self, work: Callable[[], None]) -> None:
        self.time.after(1, work)

    def watch(self, kind: str, path: str, watch: Callable[[], None]) -> None:
        def fired() -> None:
            self.watch_count += 1
            watch()

        super().watch(kind, path, fired)

    def apply(self, operations: Sequence[Operation], *, owner: int) -> FailedOperation | None:
        self.multi_count += 1
        self.written_count += len(operations)
        return super().apply(operations, owner=owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of an event until every broker has been updated."""

    events: int
    virtual_ms: int
    znode_multis: int
    znode_operations: int
    znode_reads: int
    watches_fired: int
    requests: dict[str, int]
    bytes_sent: int

    def told(self) -> list[str]:
        return [
            f"{self.events:,} events in {self.virtual_ms:,} ms of virtual time",
            f"{self.znode_multis:,} multis with {self.znode_operations:,} operations, "
            f"{self.znode_reads:,} reads, {self.watches_fired:,} watches",
            f"{sum(self.requests.values()):,} requests, {self.bytes_sent:,} bytes: {self.requests}",
        ]


class LargeCluster:
    """Brokers by number; time only passes in `await_metadata`."""

    def __init__(self, broker_count: int, *, seed: int = 1) -> None:
        self.time = VirtualTime(random.Random(seed))
        self.network = FakeNetwork(self.time)
        self.zookeeper = CountedZooKeeper(time=self.time)
        self.nodes = {
            NodeId(number): LargeNode(self, NodeId(number)) for number in range(broker_count)
        }
        self._gone_reads = 0
        self.await_metadata()

    @property
    def leading(self) -> Controller | None:
        found = [each.membership.controller for each in self.nodes.values()]
        return next((each for each in found if each is not None), None)

    @property
    def controller_id(self) -> NodeId:
        return next(
            key for key, each in self.nodes.items() if each.membership.controller is not None
        )

    def create(self, partition_count: int) -> None:
        """Create topics as fast as the controller accepts them."""
        leading = self.leading
        assert leading is not None
        rng = SeededRandom(random.Random(7))
        topics = []
        for number in range(partition_count // PARTITIONS_OF_A_TOPIC):
            replicas = place(
                leading.image.brokers,
                partition_count=PARTITIONS_OF_A_TOPIC,
                replication_factor=REPLICAS,
                rng=rng,
            )
            topics.append(
                TopicImage(
                    name=f"topic-{number}",
                    topic_id=TopicId((number + 1).to_bytes(16, "big")),
                    partitions=tuple(map(new_partition, replicas)),
                )
            )
        for first in range(0, len(topics), _TOPICS_AT_ONCE):
            changes = [TopicCreated(each) for each in topics[first : first + _TOPICS_AT_ONCE]]
            decision: ControllerResult[None] = ControllerResult(changes, None)
            leading.event_queue.submit(partial(_always, decision), then=_ignore, on_error=_fail)
        self.await_metadata()

    def kill(self, node_id: NodeId) -> None:
        """End the process; its session ends after the timeout."""
        self.nodes.pop(node_id).die()

    def cost_of(self, action: Callable[[], None]) -> Cost:
        """Do something, and count until the cluster is idle again."""
        before = self._counted()
        began_ms = self.time.now_ms
        action()
        self.time.run_for(SESSION_MS)
        self.await_metadata()
        after = self._counted()
        requests = {key.name: count for key, count in (after[1] - before[1]).items()}
        counts = {key: after[0][key] - before[0][key] for key in after[0]}
        return Cost(
            events=counts["events"],
            virtual_ms=self.time.now_ms - began_ms - SESSION_MS,
            znode_multis=counts["multis"],
            znode_operations=counts["operations"],
            znode_reads=counts["reads"],
            watches_fired=counts["watches"],
            requests=requests,
            bytes_sent=counts["bytes"],
        )

    def await_metadata(self) -> None:
        end_ms = self.time.now_ms + _TIMEOUT_MS
        while not self._is_metadata_current():
            assert self.time.now_ms < end_ms, "not all brokers have the current metadata"
            self.time.run_for(_LOOK_MS)

    def _is_metadata_current(self) -> bool:
        leading = self.leading
        if leading is None or not leading.is_idle:
            return False
        image = leading.image
        if image is not leading.event_queue.proposed or sorted(image.brokers) != sorted(self.nodes):
            return False
        return all(
            node.membership.metadata_cache.has_full_update and node.image.topics == image.topics
            for node in self.nodes.values()
        )

    def _counted(self) -> tuple[dict[str, int], Counter[ApiKey]]:
        reads = sum(each.zk_client.reads for each in self.nodes.values())
        counts = {
            "events": self.time.event_count,
            "multis": self.zookeeper.multi_count,
            "operations": self.zookeeper.written_count,
            "reads": reads + self._gone_reads,
            "watches": self.zookeeper.watch_count,
            "bytes": self.network.sent_bytes,
        }
        return counts, Counter(self.network.sent)

    def note_gone(self, reads: int) -> None:
        self._gone_reads += reads


class LargeNode:
    """A broker without partitions of its own."""

    def __init__(self, cluster: LargeCluster, node_id: NodeId) -> None:
        self._cluster = cluster
        self._is_alive = True
        self.node_id = node_id
        static = StaticConfig.parse({**_SETTINGS, "node.id": str(node_id)})
        self.zk_client = cluster.zookeeper.zk_client()
        self.store = ZooKeeperStore(
            self.zk_client,
            clock=NodeClock(cluster.time),
            call_later=self._later,
            session_timeout_ms=SESSION_MS,
        )
        self.membership = ClusterMembership(
            static=static,
            store=self.store,
            inter_broker_client=cluster.network.join(node_id, self._serve),
            liveness=NoLiveness(),
            metadata_cache=MetadataCache(
                ClusterImage(cluster_id=CLUSTER_ID), _ignore_changes, node_id=node_id
            ),
            call_later=self._later,
            fatal=_fail,
        )
        self.store.listen(self.membership)
        self.store.create_cluster(CLUSTER_ID, then=self._founded, on_error=_fail)

    @property
    def image(self) -> ClusterImage:
        return self.membership.metadata_cache.image

    def die(self) -> None:
        self._is_alive = False
        self.zk_client.is_connected = False
        if self.membership.controller is not None:
            self.membership.controller.stop()
        self._cluster.network.leave(self.node_id)
        self._cluster.note_gone(self.zk_client.reads)
        self._cluster.time.after(SESSION_MS, self.zk_client.close)

    def _founded(self, _: str) -> None:
        where = BrokerEndpoint(listener="PLAINTEXT", host=f"broker-{self.node_id}", port=9092)
        registration = Registration(node_id=self.node_id, endpoints=(where,))
        self.membership.register(registration, then=_nothing)

    def _serve(self, _: NodeId, request: Message, reply: Reply) -> None:
        metadata_cache = self.membership.metadata_cache
        match request:
            case UpdateMetadataRequest():
                reply(metadata_cache.update_metadata(request))
            case LeaderAndIsrRequest():
                reply(metadata_cache.leader_and_isr(request))
            case StopReplicaRequest():
                reply(metadata_cache.stop_replica(request))
            case _:
                raise AssertionError(f"unexpected request {request}")

    def _later(self, delay_ms: int, work: Callable[[], None]) -> None:
        def act() -> None:
            if self._is_alive:
                work()

        self._cluster.time.after(delay_ms, act)


def led_by(image: ClusterImage) -> Counter[NodeId]:
    """Number of partitions that each broker leads."""
    return Counter(
        partition.leader for topic in image.topics.values() for partition in topic.partitions
    )


def without_leader(image: ClusterImage) -> int:
    return led_by(image)[NO_LEADER]


def memory_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def _always(decision: ControllerResult[None], _: ClusterImage) -> ControllerResult[None]:
    return decision


def _ignore_changes(image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
    """There are no logs to change."""


def _nothing() -> None:
    """Reported by other means."""


def _ignore(_: object) -> None:
    """Reported by other means."""


def _fail(error: HeadwaterError) -> None:
    raise AssertionError(f"nothing fails here: {error}")
