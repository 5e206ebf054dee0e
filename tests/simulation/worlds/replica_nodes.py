"""Several brokers with replicas of one topic, on a fake network and lossy disks.

Each broker is the shipped code from the dispatch down to the log. Only the controller is a script:
it knows the leaders, answers AlterPartition, and updates brokers some time later.

Note: a broker's disk outlives its process. `crash` ends the process, and `start` begins another one
on what the disk has kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Final, TypeVar

from headwater.broker.coordinators.coordinators import new_coordinators
from headwater.broker.coordinators.producer_id_manager import ProducerIdManager
from headwater.broker.handlers.data.metadata_response import MetadataResponses
from headwater.broker.node.broker import Broker
from headwater.broker.node.standalone_node import StandaloneAccess
from headwater.broker.requests.dispatch import Dispatch
from headwater.common.ids import NodeId
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.metadata.changes import MetadataChange, apply
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata_store.standalone.standalone_store import StandaloneStore
from headwater.network.request_service import ResponseSlot
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import request_frame
from headwater.protocol.older_versions import Message
from headwater.replication.fetch.fetch_session import FetchSessionCache
from headwater.replication.partition import Partition
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_fetcher_manager import (
    ReplicaFetcherManager,
    ReplicaFetcherManagerServices,
)
from headwater.replication.replica_manager import ReplicaManager
from headwater.security.authorization.authorizer import AllowAll
from headwater.storage.io.cold_read import read_buffered
from headwater.storage.io.disk import File
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.file_range_reader import ColdReadLimits, FileRangeReader
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log_manager.log_directory import DirectoryTools
from headwater.storage.log_manager.log_manager import LogManager
from tests.simulation.fakes.fake_network import FakeNetwork, served_by
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.fakes.virtual_time import VirtualTime
from tests.simulation.labs.broker_lab import Peer, Sent

R = TypeVar("R", bound=Message)

CLUSTER_ID: Final = "TestClusterAAAAAAAAAAA"
DATA: Final = PurePath("/data")
TOPIC: Final = "t"
_SIZE_BYTES: Final = 4
_TICK_MS: Final = 100


class NodeClock:
    """`headwater.common.ports.Clock` of one broker, which may be ahead or behind."""

    def __init__(self, time: VirtualTime, skew_ms: int = 0) -> None:
        self._time = time
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._time.now_ms + self.skew_ms

    def steady_ms(self) -> int:
        return self._time.now_ms


class ReplicaNode:
    """One broker: a disk, and at times a process on it."""

    def __init__(
        self,
        node_id: NodeId,
        time: VirtualTime,
        network: FakeNetwork,
        texts: Mapping[str, str],
        *,
        skew_ms: int = 0,
    ) -> None:
        self.node_id = node_id
        self.time = time
        self.clock = NodeClock(time, skew_ms)
        self.disk = LossyDisk(random.Random(time.rand.random()), now_ms=self.clock.now_ms)
        self.disk.make_directory(DATA)
        self.static = StaticConfig.parse({**texts, "node.id": str(node_id)})
        self.broker_epoch = -1
        self.image = ClusterImage(cluster_id=CLUSTER_ID)
        self._network = network
        self._life = 0
        self._is_up = False

    @property
    def is_up(self) -> bool:
        return self._is_up

    @property
    def life(self) -> int:
        """Changes with every crash."""
        return self._life

    @property
    def has_hosted(self) -> bool:
        return self.find(0) is not None

    @property
    def hosted(self) -> Partition:
        """The first partition, which most tests use."""
        return self.hosted_at(0)

    def hosted_at(self, number: int) -> Partition:
        found = self.find(number)
        assert found is not None
        return found

    def find(self, number: int) -> Partition | None:
        return self.broker.partitions.find(TOPIC, number)

    def start(self, broker_epoch: int, image: ClusterImage) -> None:
        """Start a process with the given image."""
        self._is_up = True
        self._life += 1
        self.broker_epoch = broker_epoch
        self.image = image
        inter_broker_client = self._network.join(self.node_id, self._serve)
        self.timer = Timer()
        self.timer.wake_with(self._wake_at)
        self.replicas = ReplicaFetcherManager(
            ReplicaFetcherManagerServices(
                node_id=self.node_id,
                broker_epoch=lambda: self.broker_epoch,
                inter_broker_client=inter_broker_client,
                clock=self.clock,
                timer=self.timer,
                settings=self.static.settings,
            )
        )
        self.broker = self._broker()
        self.dispatch = Dispatch(self.broker)
        self._serve_dispatch = served_by(self.dispatch)
        self.broker.partitions.changed(image, ())
        self._later(_TICK_MS, self._tick)

    def crash(self, *, loses_power: bool) -> None:
        """End the process; with the power also lose what was not synced."""
        self._is_up = False
        self._life += 1
        self._network.leave(self.node_id)
        if loses_power:
            self.disk.power_cut()
        else:
            self.disk.process_crash()

    def stop(self) -> None:
        """A clean stop."""
        self.replicas.close()
        self.broker.timer.expire_all()
        self._is_up = False
        self._life += 1
        self._network.leave(self.node_id)
        self.broker.directories.close(broker_epoch=self.broker_epoch)

    def told(self, changes: Sequence[MetadataChange]) -> None:
        """Apply a change of the controller."""
        version = self.image.version
        self.image = apply(self.image, changes, version._replace(sequence=version.sequence + 1))
        self.broker.controller.take_over(self.image)
        self.broker.partitions.changed(self.image, changes)

    def send(self, request: Message, version: int | None = None, peer: Peer | None = None) -> Sent:
        """Send a client's request as a frame."""
        api = APIS[request.api]
        version = api.newest_served(unstable=False) if version is None else version
        peer = peer or Peer()
        slot = ResponseSlot(peer)
        parts = request_frame(api, version, 1, "lab", write(request, version))
        frame = bytearray(b"".join(_content(part) for part in parts))[_SIZE_BYTES:]
        self.dispatch.serve(slot, memoryview(frame))
        frame[:] = bytes(len(frame))
        return Sent(request, version, slot, peer)

    def _serve(self, source: NodeId, request: Message, reply: Callable[[Message], None]) -> None:
        self._serve_dispatch(source, request, reply)

    def _tick(self) -> None:
        self.broker.partitions.open_some(10)
        self.broker.directories.tick(self.clock.now_ms())
        self._later(_TICK_MS, self._tick)

    def _wake_at(self, deadline_ms: int) -> None:
        self._later(max(0, deadline_ms - self.time.now_ms), self._ring)

    def _ring(self) -> None:
        self.timer.expire(self.clock.steady_ms())
        if self.timer.next_ms is not None:
            self._wake_at(self.timer.next_ms)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Unless this process has ended by then."""
        life = self._life

        def act() -> None:
            if life == self._life:
                action()

        self.time.after(delay_ms, act)

    def _broker(self) -> Broker:
        static, rng = self.static, SeededRandom(random.Random(self.time.rand.random()))
        executor = InlineExecutor()
        tools = DirectoryTools(
            node_id=self.node_id,
            cluster_id=CLUSTER_ID,
            disk=self.disk,
            files=OpenFiles(self.disk, 64),
            executor=executor,
            rng=rng,
            settings_for=lambda name: partitions.settings_of(name),
        )
        directories = LogManager([DATA], tools, static.settings.storage())
        partitions = ReplicaManager(self.image, static, directories, self.clock, self.replicas)
        directories.open(self.clock.now_ms())
        store = StandaloneStore.open(
            LossyDisk(random.Random(1)), executor, PurePath("/"), cluster_id=CLUSTER_ID, first=()
        )
        controller = DeferredEventQueue(store, self.image, lambda _, __: None)
        controller_access = StandaloneAccess(static, controller, rng)
        producer_ids = ProducerIdManager(controller_access.allocate_producer_ids)
        coordinators = new_coordinators(
            static,
            clock=self.clock,
            rng=rng,
            executor=executor,
            timer=self.timer,
            partitions=partitions,
            producer_ids=producer_ids,
            image=lambda: self.image,
        )
        return Broker(
            static=static,
            clock=self.clock,
            rng=rng,
            executor=executor,
            validation_executor=executor,
            controller_access=controller_access,
            directories=directories,
            partitions=partitions,
            ranges=FileRangeReader(
                _AllCold(), executor, read_buffered, limits=ColdReadLimits(total_bytes=1 << 20)
            ),
            sessions=FetchSessionCache(100, rng),
            timer=self.timer,
            authorizer=AllowAll(),
            metadata=MetadataResponses(),
            producer_ids=producer_ids,
            groups=coordinators.groups,
            transactions=coordinators.transactions,
            add_partitions_to_txn_manager=coordinators.add_partitions_to_txn_manager,
            markers=coordinators.markers,
            call_soon=lambda action: self._later(0, action),
        )


class _AllCold:
    """Sends every read through the executor, since a fake disk cannot `sendfile`."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return 0


def _content(part: object) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview), "a fake disk has no ranges to send"
    return bytes(part)
