"""Whole brokers that form a cluster, in virtual time: shipped code from dispatch to log.

Only the network, the store, the disks and time are the test's.

Note: a broker's disk outlives its process. `crash` ends the process, and `start` begins another on
the same disk. It has two log directories, of which one may fail alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Final, TypeVar

from headwater.broker.coordinators.coordinators import new_coordinators
from headwater.broker.coordinators.producer_id_manager import ProducerIdManager
from headwater.broker.handlers.data.metadata_response import MetadataResponses
from headwater.broker.inter_broker.liveness import ConnectionLiveness
from headwater.broker.node.authorization import apply_acl_changes, authorizer_of
from headwater.broker.node.broker import Broker
from headwater.broker.node.cluster_membership import ClusterMembership
from headwater.broker.node.forwarding_manager import MembershipForwardingManager
from headwater.broker.requests.dispatch import Dispatch
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import BrokerEndpoint, ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.metadata_cache import MetadataCache
from headwater.metadata.ports.metadata_store import Registration
from headwater.network.request_service import ResponseSlot
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import request_frame
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
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
from tests.simulation.fakes.shared_metadata_store import SESSION_TIMEOUT_MS, SharedStore
from tests.simulation.fakes.stall import Stall
from tests.simulation.fakes.timed_zookeeper import TimedZooKeeper
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
_LEAVE_TRIES: Final = 3
_LEAVE_BACKOFF_MS: Final = 300


class ClusterNodeLab:
    """A cluster of brokers by number."""

    def __init__(
        self,
        count: int,
        *,
        seed: int = 1,
        texts: Mapping[str, str] | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        most_skew_ms: int = 0,
        has_zookeeper: bool = False,
    ) -> None:
        """Clocks differ from the true time by at most this much, each by its own amount.

        `has_zookeeper`: the shipped store on a ZooKeeper in memory, instead of a model of both.
        """
        self.time = VirtualTime(random.Random(seed))
        new_store = TimedZooKeeper if has_zookeeper else SharedStore
        self.store: TimedZooKeeper | SharedStore = new_store(
            self.time, session_timeout_ms=session_timeout_ms
        )
        self.network = FakeNetwork(self.time)
        skews = random.Random(f"skew {seed}")
        self.nodes = [
            MemberNode(
                self,
                NodeId(number),
                texts or {},
                skew_ms=skews.randint(-most_skew_ms, most_skew_ms),
            )
            for number in range(count)
        ]
        for node in self.nodes:
            node.start()
        self.run(1_000)

    @property
    def controller(self) -> MemberNode:
        (found,) = [node for node in self.nodes if node.is_up and node.membership.controller]
        return found

    @property
    def others(self) -> list[MemberNode]:
        """Live brokers that are not the controller."""
        return [node for node in self.nodes if node.is_up and not node.membership.controller]

    def run(self, span_ms: int) -> None:
        self.time.run_for(span_ms)


class MemberNode:
    """One broker: a disk, and at times a process on it."""

    def __init__(
        self, lab: ClusterNodeLab, node_id: NodeId, texts: Mapping[str, str], *, skew_ms: int = 0
    ) -> None:
        self._lab = lab
        self.node_id = node_id
        self.clock = NodeClock(lab.time, skew_ms)
        self.disk = LossyDisk(random.Random(lab.time.rand.random()), now_ms=self.clock.now_ms)
        for path in DIRECTORIES:
            self.disk.make_directory(path)
        self.static = StaticConfig.parse({**texts, "node.id": str(node_id)})
        self.fatal: list[HeadwaterError] = []
        self.is_up = False
        self.stall = Stall()
        # Delay of its disk, now and after the next start.
        self._lag_ms = 0
        self._life = 0

    @property
    def life(self) -> int:
        """Changes with every stop and start."""
        return self._life

    @property
    def is_serving(self) -> bool:
        """Whether it has registered, so that its sockets are open."""
        return self.is_up and self._backlog is None

    @property
    def image(self) -> ClusterImage:
        return self.membership.metadata_cache.image

    def start(self) -> None:
        self.is_up = True
        self._life += 1
        self._backlog: list[Callable[[], None]] | None = []
        lab = self._lab
        self.rng = SeededRandom(random.Random(lab.time.rand.random()))
        self.inter_broker_client = lab.network.join(self.node_id, self._serve, self.stall)
        self.session = lab.store.session(self.node_id, self.stall)
        self.timer = Timer()
        self.timer.wake_with(self._wake_at)
        self.executor = LaggingExecutor(lab.time.rand, self._later)
        self.executor.most_ms = self._lag_ms
        self._failed_count = 0
        self._build(ClusterImage(cluster_id=CLUSTER_ID))
        self.session.listen(self.membership)
        self.membership.register(
            Registration(
                node_id=self.node_id,
                directory_id=f"directory-{self.node_id}",
                endpoints=(BrokerEndpoint(listener=LISTENER, host="h", port=int(self.node_id)),),
            ),
            then=self._open,
        )
        self.session.read_configs(then=self.membership.metadata_cache.store_changed)
        self._later(_TICK_MS, self._tick)

    def crash(self, *, loses_power: bool = False) -> None:
        """End the process; with the power also lose what was not synced."""
        self._end()
        self.session.crash()
        if loses_power:
            self.disk.power_cut()
        else:
            self.disk.process_crash()

    def stop(self) -> None:
        """A clean stop, after controlled shutdown succeeded or was given up."""
        self._take_leave(_LEAVE_TRIES)

    def close(self) -> None:
        """A clean stop without controlled shutdown."""
        self.membership.close()
        self.replicas.close()
        self.coordinators.groups.close()
        self.coordinators.transactions.close()
        self.timer.expire_all()
        # Its threads end before the logs are closed.
        self.executor.finish()
        self.broker.directories.close(broker_epoch=self.membership.broker_epoch)
        self.session.close()
        self._end()
        # Files that a failed directory left open are closed with the process.
        self.disk.process_crash()

    def freeze(self) -> None:
        """The process does not run, and its session is not kept alive."""
        self.stall.begin()
        self.session.cut()

    def thaw(self) -> None:
        self.session.heal()
        self.stall.end()

    def slow_down(self, most_ms: int) -> None:
        """From now on its disk takes this long for jobs off the loop."""
        self._lag_ms = self.executor.most_ms = most_ms

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
        self._lab.run(within_ms)
        return sent.answer(shape)

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        """`BrokerDirectory`, as in `cluster_node`."""
        leading = self.membership.controller
        image = self.image if leading is None else leading.image
        broker = image.brokers.get(node_id)
        return None if broker is None else broker.endpoint(LISTENER)

    # Composition.

    def _build(self, image: ClusterImage) -> None:
        self.replicas = ReplicaFetcherManager(
            ReplicaFetcherManagerServices(
                node_id=self.node_id,
                broker_epoch=lambda: self.membership.broker_epoch,
                inter_broker_client=self.inter_broker_client,
                clock=self.clock,
                timer=self.timer,
                settings=self.static.settings,
            )
        )
        directories = self._directories()
        self.partitions = ReplicaManager(image, self.static, directories, self.clock, self.replicas)
        directories.open(self.clock.now_ms())
        self.membership = ClusterMembership(
            static=self.static,
            store=self.session,
            inter_broker_client=self.inter_broker_client,
            liveness=ConnectionLiveness(
                directory=self,
                dial=self.inter_broker_client.dial,
                clock=self.clock,
                call_later=self._later,
            ),
            metadata_cache=MetadataCache(
                image, self._told, node_id=self.node_id, log_dir_error=self.partitions.log_dir_error
            ),
            call_later=self._later,
            fatal=self.fatal.append,
        )
        self.broker = self._broker(directories)
        self.dispatch = Dispatch(self.broker, brokers_listener=LISTENER)

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

    def _broker(self, directories: LogManager) -> Broker:
        executor = self.executor
        self.member = controller_access = MembershipForwardingManager(
            self.static,
            membership=self.membership,
            inter_broker_client=self.inter_broker_client,
            clock=self.clock,
            rng=self.rng,
            call_later=self._later,
        )
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
        serve = partial(served_by(self.dispatch), source, request, reply)
        if self._backlog is None:
            serve()
        else:
            self._backlog.append(serve)

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

    def _take_leave(self, tries: int) -> None:
        def again(_: HeadwaterError | None = None) -> None:
            self._later(_LEAVE_BACKOFF_MS, lambda: self._take_leave(tries - 1))

        def answered(response: Message) -> None:
            assert isinstance(response, ControlledShutdownResponse)
            if response.error_code or response.remaining_partitions:
                again()
            else:
                self.close()

        if not tries:
            self.close()
            return
        request = ControlledShutdownRequest(
            broker_id=self.node_id, broker_epoch=self.membership.broker_epoch
        )
        self.member.send_to_controller(request, then=answered, on_error=again)

    def _tick(self) -> None:
        self.partitions.open_some(10)
        self.coordinators.groups.load_some(10)
        self.coordinators.transactions.load_some(10)
        self.coordinators.add_partitions_to_txn_manager.tick(self.clock.now_ms())
        self.broker.directories.tick(self.clock.now_ms())
        self._later(_TICK_MS, self._tick)
        self._look_for_failures()

    def _look_for_failures(self) -> None:
        """As `headwater.broker.node.background_tasks` does."""
        directories = self.broker.directories
        failed_count = len(directories.directories) - len(directories.serving())
        if failed_count > self._failed_count:
            self._failed_count = failed_count
            if self.partitions.handle_failed_log_dirs():
                self.session.report_failed_directory(self.node_id)
        if not directories.serving():
            self.crash()

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

        self._lab.time.after(delay_ms, partial(self.stall.pass_on, act))

    def _end(self) -> None:
        self.is_up = False
        self._life += 1
        self.stall.forget()
        self._lab.network.leave(self.node_id)


class _AllCold:
    """Sends every read through the executor, since a fake disk cannot `sendfile`."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return 0


def _content(part: object) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview), "a fake disk has no ranges to send"
    return bytes(part)
