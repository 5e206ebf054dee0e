"""One broker in virtual time: shipped code from dispatch to log, on a disk that loses data.

It is the same in every kind of cluster. How it joins one is up to the subclass: see
`cluster_node_lab` for ZooKeeper, and `kraft_lab` for KRaft.

Note: a broker's disk outlives its process. `crash` ends the process, and `start` begins another on
the same disk. It has two log directories, of which one may fail alone.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Final, Protocol, TypeVar

from headwater.broker.coordinators.coordinators import new_coordinators
from headwater.broker.coordinators.producer_id_manager import ProducerIdManager
from headwater.broker.handlers.data.metadata_response import MetadataResponses
from headwater.broker.node.authorization import apply_acl_changes, authorizer_of
from headwater.broker.node.broker import Broker
from headwater.broker.node.controller_access import ControllerAccess
from headwater.broker.requests.dispatch import Dispatch
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.network.request_service import ResponseSlot
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import request_frame
from headwater.protocol.older_versions import Message
from headwater.replication.fetch.fetch_session import FetchSessionCache
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_fetcher_manager import (
    ReplicaFetcherManager,
    ReplicaFetcherManagerServices,
)
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.io.cold_read import read_buffered
from headwater.storage.io.disk import File
from headwater.storage.io.file_range_reader import ColdReadLimits, FileRangeReader
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log_manager.log_dir_move_steps import MoveSizes
from headwater.storage.log_manager.log_directory import DirectoryTools
from headwater.storage.log_manager.log_manager import LogManager
from tests.simulation.fakes.fake_network import FakeNetwork, served_by
from tests.simulation.fakes.lagging_executor import LaggingExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.fakes.stall import Stall
from tests.simulation.fakes.virtual_time import VirtualTime
from tests.simulation.labs.broker_lab import Peer, Sent
from tests.simulation.labs.cluster_lab import CLUSTER_ID
from tests.simulation.worlds.replica_nodes import NodeClock

R = TypeVar("R", bound=Message)

DIRECTORIES: Final = (PurePath("/data"), PurePath("/more"))
# Logs are small here; slow down moves between directories all the same.
SMALL_STEPS: Final = MoveSizes(step_bytes=500, unflushed_bytes=2_000, final_copy_bytes=200)
LISTENER: Final = "PLAINTEXT"
_SIZE_BYTES: Final = 4
_TICK_MS: Final = 100


class StoredMetadata(Protocol):
    """The metadata that brokers and controller follow."""

    @property
    def image(self) -> ClusterImage: ...


class ClusterLab(Protocol):
    """A cluster of brokers by number, of any kind."""

    @property
    def time(self) -> VirtualTime: ...

    @property
    def network(self) -> FakeNetwork: ...

    @property
    def store(self) -> StoredMetadata: ...

    @property
    def nodes(self) -> Sequence[LabNode]: ...

    def run(self, span_ms: int) -> None: ...


class LabNode(ABC):
    """One broker: a disk, and at times a process on it."""

    def __init__(
        self,
        time: VirtualTime,
        network: FakeNetwork,
        node_id: NodeId,
        texts: Mapping[str, str],
        *,
        skew_ms: int = 0,
    ) -> None:
        self.node_id = node_id
        self.clock = NodeClock(time, skew_ms)
        self.disk = LossyDisk(random.Random(time.rand.random()), now_ms=self.clock.now_ms)
        for path in DIRECTORIES:
            self.disk.make_directory(path)
        self.static = StaticConfig.parse({**texts, "node.id": str(node_id)})
        self.fatal: list[HeadwaterError] = []
        self.is_up = False
        self.stall = Stall()
        self._time = time
        self._network = network
        # Delay of its disk, now and after the next start.
        self._lag_ms = 0
        self._life = 0
        # Requests that arrived before this broker has registered.
        self._backlog: list[Callable[[], None]] | None = None
        self.broker: Broker
        self.dispatch: Dispatch

    @property
    def life(self) -> int:
        """Changes with every stop and start."""
        return self._life

    @property
    def is_serving(self) -> bool:
        """Whether it has registered, so that its sockets are open."""
        return self.is_up and self._backlog is None

    @property
    @abstractmethod
    def image(self) -> ClusterImage:
        """The metadata that this broker works with."""

    @property
    @abstractmethod
    def broker_epoch(self) -> int:
        """The epoch of its registration."""

    @abstractmethod
    def start(self) -> None:
        """Begin a process on the disk."""

    @abstractmethod
    def crash(self, *, loses_power: bool = False) -> None:
        """End the process; with the power also lose what was not synced."""

    @abstractmethod
    def stop(self) -> None:
        """A clean stop, after controlled shutdown succeeded or was given up."""

    def freeze(self) -> None:
        """The process does not run."""
        self.stall.begin()

    def thaw(self) -> None:
        self.stall.end()

    def slow_down(self, most_ms: int) -> None:
        """From now on its disk takes this long for jobs off the loop."""
        self._lag_ms = most_ms
        if self._life:
            self.executor.most_ms = most_ms

    def directory_of(self, name: TopicPartition) -> PurePath | None:
        """The log directory of a partition, if it has one."""
        directories = self.broker.directories
        return directories.directory_of(name).path if name in directories else None

    def send(self, request: Message, version: int | None = None, peer: Peer | None = None) -> Sent:
        """Send a client's request as a frame."""
        api = APIS[request.api]
        version = api.newest_served(unstable=False) if version is None else version
        peer = peer or Peer()
        slot = ResponseSlot(peer)
        parts = request_frame(api, version, 1, "lab", write(request, version))
        frame = bytearray(b"".join(_content(part) for part in parts))[_SIZE_BYTES:]
        self.dispatch.serve(slot, memoryview(frame))
        peer.release_frame(slot, frame)
        return Sent(request, version, slot, peer)

    def ask(self, request: Message, shape: type[R], within_ms: int = 2_000) -> R:
        """The response to a request, which may take some time."""
        sent = self.send(request)
        self._time.run_for(within_ms)
        return sent.answer(shape)

    # A process begins and ends.

    def _begin(self) -> None:
        """Everything that a process has before it joins a cluster."""
        self.is_up = True
        self._life += 1
        self._backlog = []
        self.rng = SeededRandom(random.Random(self._time.rand.random()))
        self.network_client = self._network.join(self.node_id, self._serve, self.stall)
        self.timer = Timer()
        self.timer.wake_with(self._wake_at)
        self.executor = LaggingExecutor(self._time.rand, self._later)
        self.executor.most_ms = self._lag_ms
        self._failed_count = 0

    def _end(self) -> None:
        self.is_up = False
        self._life += 1
        self.stall.forget()
        self._network.leave(self.node_id)

    def _end_on_disk(self, *, loses_power: bool) -> None:
        if loses_power:
            self.disk.power_cut()
        else:
            self.disk.process_crash()

    def _close_logs(self) -> None:
        """What a clean stop does after the replicas have stopped."""
        self.replicas.close()
        self.coordinators.groups.close()
        self.coordinators.transactions.close()
        self.timer.expire_all()
        # Its threads end before the logs are closed.
        self.executor.finish()
        self.broker.directories.close(broker_epoch=self.broker_epoch)

    # Composition.

    def _open_logs(self, image: ClusterImage, inter_broker_client: InterBrokerClient) -> LogManager:
        self.inter_broker_client = inter_broker_client
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
        directories = self._directories()
        self.partitions = ReplicaManager(image, self.static, directories, self.clock, self.replicas)
        directories.open(self.clock.now_ms())
        return directories

    def _directories(self) -> LogManager:
        tools = DirectoryTools(
            node_id=self.node_id,
            cluster_id=CLUSTER_ID,
            disk=self.disk,
            files=OpenFiles(self.disk, 64),
            executor=self.executor,
            rng=self.rng,
            settings_for=lambda name: self.partitions.settings_of(name),
        )
        return LogManager(
            DIRECTORIES, tools, self.static.settings.storage(), move_sizes=SMALL_STEPS
        )

    def _broker(self, directories: LogManager, controller_access: ControllerAccess) -> Broker:
        executor = self.executor
        producer_ids = ProducerIdManager(controller_access.allocate_producer_ids)
        self.coordinators = new_coordinators(
            self.static,
            clock=self.clock,
            rng=self.rng,
            executor=executor,
            timer=self.timer,
            partitions=self.partitions,
            producer_ids=producer_ids,
            image=lambda: controller_access.image,
            inter_broker_client=self.inter_broker_client,
        )
        return Broker(
            static=self.static,
            clock=self.clock,
            rng=self.rng,
            executor=executor,
            validation_executor=executor,
            controller_access=controller_access,
            directories=directories,
            partitions=self.partitions,
            ranges=FileRangeReader(
                _AllCold(), executor, read_buffered, limits=ColdReadLimits(total_bytes=1 << 20)
            ),
            sessions=FetchSessionCache(100, self.rng),
            timer=self.timer,
            authorizer=authorizer_of(self.static.settings),
            metadata=MetadataResponses(),
            producer_ids=producer_ids,
            groups=self.coordinators.groups,
            transactions=self.coordinators.transactions,
            add_partitions_to_txn_manager=self.coordinators.add_partitions_to_txn_manager,
            markers=self.coordinators.markers,
            call_soon=lambda action: self._later(0, action),
        )

    # Events.

    def _serve(self, source: NodeId, request: Message, reply: Callable[[Message], None]) -> None:
        """Only a registered broker serves; until then connections wait."""
        serve = partial(self._serve_now, source, request, reply)
        if self._backlog is None:
            serve()
        else:
            self._backlog.append(serve)

    def _serve_now(
        self, source: NodeId, request: Message, reply: Callable[[Message], None]
    ) -> None:
        served_by(self.dispatch)(source, request, reply)

    def _open(self) -> None:
        waiting, self._backlog = self._backlog, None
        for serve in waiting or ():
            serve()

    def _told(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        apply_acl_changes(self.broker.authorizer, changes)
        self.broker.deleted_topics.changed(changes)
        self.partitions.changed(image, changes)
        self.coordinators.groups.changed(image, changes)
        self.coordinators.transactions.changed(image)
        if any(isinstance(change, FeatureFinalized) for change in changes):
            self.dispatch.announce(image)

    def _start_ticks(self) -> None:
        self._later(_TICK_MS, self._tick)

    def _tick(self) -> None:
        self.partitions.open_some(10)
        self.coordinators.groups.load_some(10)
        self.coordinators.transactions.load_some(10)
        self.coordinators.add_partitions_to_txn_manager.tick(self.clock.now_ms())
        self._tick_others()
        self.broker.directories.tick(self.clock.now_ms())
        self._later(_TICK_MS, self._tick)
        self._look_for_failures()

    def _tick_others(self) -> None:
        """Further work of one kind of cluster, ten times a second."""
        return

    def _look_for_failures(self) -> None:
        """As `headwater.broker.node.background_tasks` does."""
        directories = self.broker.directories
        failed_count = len(directories.directories) - len(directories.serving())
        if failed_count > self._failed_count:
            self._failed_count = failed_count
            self._directory_failed()
        if not directories.serving():
            self.crash()

    @abstractmethod
    def _directory_failed(self) -> None:
        """Tell the controller that a log directory is offline."""

    def _wake_at(self, deadline_ms: int) -> None:
        self._later(max(0, deadline_ms - self.clock.steady_ms()), self._ring)

    def _ring(self) -> None:
        self.timer.expire(self.clock.steady_ms())
        if self.timer.next_ms is not None:
            self._wake_at(self.timer.next_ms)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Unless this process has ended by then."""
        life = self._life

        def act() -> None:
            if self._life == life:
                action()

        self._time.after(delay_ms, partial(self.stall.pass_on, act))


class _AllCold:
    """Sends every read through the executor, since a fake disk cannot `sendfile`."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return 0


def _content(part: object) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview), "a fake disk has no ranges to send"
    return bytes(part)
