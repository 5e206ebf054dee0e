"""Whole KRaft clusters in virtual time: shipped code from the quorum to the brokers' logs.

Controllers have the shipped replica of the metadata log, controller and request handlers; brokers
observe that log, register, send heartbeats and forward. Only the network, the disks, time and the
order in which a node puts these parts together are the test's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Final

from headwater.broker.broker_server.assignments_manager import AssignmentsManager
from headwater.broker.broker_server.broker_lifecycle_manager import (
    BrokerDetails,
    BrokerLifecycleManager,
    BrokerState,
)
from headwater.broker.broker_server.broker_metadata_publisher import BrokerMetadataPublisher
from headwater.broker.broker_server.heartbeat_sender import HeartbeatSender
from headwater.broker.broker_server.kraft_forwarding_manager import KRaftForwardingManager
from headwater.broker.broker_server.metadata_observer import MetadataObserver
from headwater.broker.broker_server.supported_features import KRAFT_FEATURES
from headwater.broker.controller_server.controller_apis import ControllerApis
from headwater.broker.controller_server.controller_registration_manager import (
    ControllerRegistrationManager,
)
from headwater.broker.controller_server.controller_server import quorum_config, static_voters
from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.controller_server.raft_manager import RaftManager, RaftManagerTools
from headwater.broker.inter_broker.node_to_controller_channel_manager import (
    DIRECTORY_ASSIGNMENTS,
    ControllerAwareClient,
    NodeToControllerChannelManager,
)
from headwater.broker.node.authorization import authorizer_of
from headwater.broker.requests.api_routes import QUORUM_ADMIN_APIS
from headwater.broker.requests.dispatch import Dispatch
from headwater.common.exceptions import HeadwaterError, StorageError
from headwater.common.ids import NO_EPOCH, NodeId, TopicId
from headwater.common.settings.quorum_settings import is_quorum_setting, parse_quorum_settings
from headwater.controller.quorum.quorum_controller import QuorumController
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import NO_CONTROLLER, BrokerEndpoint, ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from headwater.metadata_store.raft.kafka_raft_log import DIRECTORY_NAME, MetadataLogConfig
from headwater.metadata_store.raft.metadata_loader import MetadataLoader, records_in
from headwater.metadata_store.raft.metadata_version import feature_levels
from headwater.metadata_store.raft.quorum_change_writer import QuorumChangeWriter
from headwater.metadata_store.raft.storage_formatter import (
    BOOTSTRAP_FILE_NAME,
    FormatRequest,
    InitialController,
    format_storage,
    random_uuid,
)
from headwater.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import LeaderAndEpoch
from headwater.raft.raft_core import RaftIdentity
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import Endpoint, Node, ReplicaKey
from headwater.replication.partition import Partition
from headwater.replication.purgatory.timer import Timer
from headwater.storage.io.disk import read_whole
from headwater.storage.log_manager import meta_properties
from tests.simulation.fakes.fake_channel import FakeDial, VirtualLoop
from tests.simulation.fakes.fake_network import FakeNetwork, served_by
from tests.simulation.fakes.lagging_executor import LaggingExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.fakes.stall import Stall
from tests.simulation.fakes.virtual_time import VirtualTime
from tests.simulation.labs.cluster_lab import CLUSTER_ID
from tests.simulation.labs.lab_node import DIRECTORIES, LISTENER, LabNode
from tests.simulation.worlds.replica_nodes import NodeClock

FIRST_CONTROLLER: Final = 3_000
SESSION_MS: Final = 2_000
HEARTBEAT_MS: Final = 300
METADATA: Final = PurePath("/metadata")
CONTROLLER_LISTENER: Final = "CONTROLLER"
_TICK_MS: Final = 100
_LONGEST_SHUTDOWN_MS: Final = 10_000
_LONGEST_START_S: Final = 60
_FIRST_BOOTSTRAP_ID: Final = -2
_QUORUM_TEXTS: Final = {
    "controller.listener.names": CONTROLLER_LISTENER,
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.fetch.timeout.ms": "700",
    "controller.quorum.request.timeout.ms": "600",
}

Observed = Callable[["LogApplier", Sequence[MetadataChange] | None, int], None]


@dataclass(slots=True)
class LogApplier:
    """A replica that has applied the log up to some offset."""

    name: str
    image: ClusterImage


@dataclass(slots=True)
class CommittedMetadata:
    """The newest committed image that any replica has applied."""

    image: ClusterImage
    offset: int = -1
    observers: list[Observed] = field(default_factory=list)

    def applied(
        self,
        name: str,
        image: ClusterImage,
        changes: Sequence[MetadataChange] | None,
        offset: int,
    ) -> None:
        """A replica applied the log up to an offset; without changes, it loaded a snapshot."""
        for each in self.observers:
            each(LogApplier(name, image), changes, offset)
        if offset > self.offset:
            self.image, self.offset = image, offset


class KRaftLab:
    """Brokers by number and their controllers."""

    def __init__(
        self,
        brokers: int,
        controllers: int,
        *,
        seed: int = 1,
        texts: Mapping[str, str] | None = None,
        most_skew_ms: int = 0,
        is_dynamic: bool = True,
        snapshot_bytes: int | None = None,
        has_elr: bool = True,
    ) -> None:
        """Clocks differ from the true time by at most this much, each by its own amount.

        `is_dynamic`: voters are in the log, not in `controller.quorum.voters`. `has_elr`: the
        cluster has eligible leader replicas.
        """
        self.time = VirtualTime(random.Random(seed))
        self.network = FakeNetwork(self.time)
        self.store = CommittedMetadata(ClusterImage(cluster_id=CLUSTER_ID))
        self._is_dynamic = is_dynamic
        self.has_elr = has_elr
        ids = [FIRST_CONTROLLER + number for number in range(controllers)]
        uuids = SeededRandom(random.Random(f"uuids {seed}"))
        self._initial = tuple(
            InitialController(node_id=each, host="h", port=each, directory_id=random_uuid(uuids))
            for each in ids
        )
        quorum_texts = {**_QUORUM_TEXTS, **(texts or {})}
        if snapshot_bytes is not None:
            name = "metadata.log.max.record.bytes.between.snapshots"
            quorum_texts[name] = str(snapshot_bytes)
        if is_dynamic:
            servers = ",".join(f"h:{each}" for each in ids)
            quorum_texts["controller.quorum.bootstrap.servers"] = servers
        else:
            voters = ",".join(f"{each}@h:{each}" for each in ids)
            quorum_texts["controller.quorum.voters"] = voters
        skews = random.Random(f"skew {seed}")

        def skew_ms() -> int:
            return skews.randint(-most_skew_ms, most_skew_ms)

        self.controllers = [
            KRaftController(self, NodeId(each), quorum_texts, skew_ms=skew_ms()) for each in ids
        ]
        self.nodes = [
            KRaftBroker(self, NodeId(number), quorum_texts, skew_ms=skew_ms())
            for number in range(brokers)
        ]
        for each in self.controllers:
            each.start()
        for node in self.nodes:
            node.start()
        self.run(3_000)
        for _ in range(_LONGEST_START_S):
            if all(node.has_joined for node in self.nodes):
                break
            # Several elections in a row had no winner.
            self.run(1_000)

    @property
    def active(self) -> KRaftController | None:
        """The active controller of the newest epoch, if there is one."""
        found = [each for each in self.controllers if each.is_up and each.is_active]
        return max(found, key=lambda each: each.leader.epoch, default=None)

    def run(self, span_ms: int) -> None:
        self.time.run_for(span_ms)

    def format(
        self, node_id: NodeId, disk: LossyDisk, directories: tuple[PurePath, ...], *, voter: bool
    ) -> None:
        """`kafka-storage format`."""
        format_storage(
            FormatRequest(
                node_id=node_id,
                cluster_id=CLUSTER_ID,
                directories=directories,
                metadata_directory=METADATA,
                features=feature_levels(
                    None, {ELIGIBLE_LEADER_REPLICAS_VERSION: int(self.has_elr)}
                ),
                controller_listener=CONTROLLER_LISTENER,
                initial_controllers=self._initial if voter and self._is_dynamic else None,
            ),
            disk=disk,
            random=SeededRandom(self.time.rand),
            now_ms=self.time.now_ms,
        )


class KRaftController:
    """A node with `process.roles=controller`, put together as `ControllerServer` does it."""

    def __init__(
        self, lab: KRaftLab, node_id: NodeId, texts: Mapping[str, str], *, skew_ms: int
    ) -> None:
        self.node_id = node_id
        self.clock = NodeClock(lab.time, skew_ms)
        self.disk = LossyDisk(random.Random(lab.time.rand.random()), now_ms=self.clock.now_ms)
        self.disk.make_directory(METADATA)
        own = {name: text for name, text in texts.items() if not is_quorum_setting(name)}
        self.static = StaticConfig.parse({**own, "node.id": str(node_id)})
        self.quorum = parse_quorum_settings({**texts, "process.roles": "controller"})
        self.stall = Stall()
        self.is_up = False
        self.fatal: list[str] = []
        self.leader = LeaderAndEpoch(None, 0)
        self._lab = lab
        self._life = 0
        # Delay of its disk, now and after the next start.
        self._lag_ms = 0
        lab.format(node_id, self.disk, (METADATA,), voter=True)

    @property
    def is_active(self) -> bool:
        return self.services.quorum_controller is not None

    @property
    def life(self) -> int:
        return self._life

    def start(self) -> None:
        self.is_up = True
        self._life += 1
        rng = SeededRandom(random.Random(self._lab.time.rand.random()))
        client = self._lab.network.join(self.node_id, self._serve, self.stall)
        loop = VirtualLoop(self._later)
        self.executor = LaggingExecutor(self._lab.time.rand, self._later)
        self.executor.most_ms = self._lag_ms
        self.timer = Timer()
        self.raft = RaftManager(
            self._identity(),
            METADATA / DIRECTORY_NAME,
            config=quorum_config(self.quorum),
            log_config=MetadataLogConfig(
                segment_bytes=self.quorum.metadata_log_segment_bytes,
                segment_ms=self.quorum.metadata_log_segment_ms,
            ),
            tools=RaftManagerTools(
                loop=loop,
                clock=self.clock,
                random=rng,
                disk=self.disk,
                executor=self.executor,
                dial=FakeDial(client),
            ),
            listener=self,
            failed=self._disk_failed,
            broken=self._broken,
        )
        self.loader = MetadataLoader(
            CLUSTER_ID, self.raft.client, self.raft.log, on_commit=self._committed
        )
        self.writer = QuorumChangeWriter(
            self.node_id,
            self.raft.driver,
            self.loader,
            bootstrap=records_in(read_whole(self.disk, METADATA / BOOTSTRAP_FILE_NAME) or b""),
            now_ms=self.clock.now_ms,
        )
        self.services = ControllerServices(
            static=self.static,
            clock=self.clock,
            rng=rng,
            timer=self.timer,
            authorizer=authorizer_of(self.static.settings),
            loader=self.loader,
            call_soon=loop.call_soon,
            receive=self.raft.receive,
        )
        self._registration = ControllerRegistrationManager(
            self.services,
            self.raft.client,
            incarnation_id=random_uuid(rng),
            endpoints=[
                BrokerEndpoint(listener=CONTROLLER_LISTENER, host="h", port=int(self.node_id))
            ],
            listener_name=CONTROLLER_LISTENER,
            send_request=self.raft.send_apart,
        )
        self.apis = ControllerApis(
            self.services,
            self.raft.client,
            cluster_id=CLUSTER_ID,
            listener_name=CONTROLLER_LISTENER,
        )
        self.raft.start()
        self._tick()

    def crash(self, *, loses_power: bool = False) -> None:
        """End the process; with the power also lose what was not synced."""
        self._end()
        if loses_power:
            self.disk.power_cut()
        else:
            self.disk.process_crash()

    def stop(self) -> None:
        """A clean stop; it resigns first if it leads."""
        client = self.raft.client
        if client.is_leader and len(client.voters) > 1:
            self.raft.driver.resign(client.leader_and_epoch.epoch)
        self.raft.close()
        self.executor.finish()
        self.raft.close_log()
        self._end()
        self.disk.process_crash()

    def freeze(self) -> None:
        """The process does not run."""
        self.stall.begin()

    def thaw(self) -> None:
        self.stall.end()

    def slow_down(self, most_ms: int) -> None:
        """From now on its syncs take up to this long."""
        self._lag_ms = self.executor.most_ms = most_ms

    def _identity(self) -> RaftIdentity:
        meta = meta_properties.load(self.disk, METADATA)
        assert meta is not None
        assert meta.directory_id is not None
        return RaftIdentity(
            key=ReplicaKey(self.node_id, TopicId.parse(meta.directory_id)),
            cluster_id=CLUSTER_ID,
            listener_name=CONTROLLER_LISTENER,
            endpoints=(Endpoint(CONTROLLER_LISTENER, "h", int(self.node_id)),),
            static_voters=static_voters(self.quorum, CONTROLLER_LISTENER),
            bootstrap_servers=tuple(
                Node(_FIRST_BOOTSTRAP_ID - index, each.host, each.port)
                for index, each in enumerate(self.quorum.bootstrap_servers)
            ),
        )

    def _end(self) -> None:
        self.is_up = False
        self._life += 1
        self.stall.forget()
        self._lab.network.leave(self.node_id)

    def _disk_failed(self, error: StorageError) -> None:
        self._broken(error)

    def _broken(self, error: Exception) -> None:
        self.fatal.append(repr(error))

    def _serve(self, source: NodeId, request: Message, reply: Callable[[Message], None]) -> None:
        served_by(self.apis, listener=CONTROLLER_LISTENER)(source, request, reply)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self._life

        def act() -> None:
            if self._life == life:
                action()

        self._lab.time.after(delay_ms, partial(self.stall.pass_on, act))

    def _tick(self) -> None:
        now_ms = self.clock.steady_ms()
        self.raft.sweep()
        self.timer.expire(now_ms)
        if self.services.quorum_controller is not None:
            self.services.quorum_controller.expire_sessions()
        self._registration.maybe_register(now_ms)
        self._later(_TICK_MS, self._tick)

    # `RaftListener`

    def handle_commit(self, start_offset: int, end_offset: int) -> None:
        self.loader.commit(start_offset, end_offset)
        self.writer.committed(end_offset)
        limit_bytes = self.quorum.metadata_log_max_record_bytes_between_snapshots
        if self.loader.bytes_since_snapshot >= limit_bytes and self.loader.can_snapshot:
            self.loader.snapshot()
            self.raft.client.clean_log()

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        self.loader.load_snapshot(snapshot_id)
        name = f"controller {self.node_id}"
        self._lab.store.applied(name, self.loader.image, None, snapshot_id.offset - 1)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader
        active, self.services.quorum_controller = self.services.quorum_controller, None
        self.writer.leader_changed(leader)
        if active is not None:
            active.stop()
        if self.writer.image is not None:
            self._become_active(self.writer.image, leader.epoch)

    def _committed(
        self, image: ClusterImage, changes: Sequence[MetadataChange], offset: int
    ) -> None:
        self._lab.store.applied(f"controller {self.node_id}", image, changes, offset)

    def _become_active(self, image: ClusterImage, epoch: int) -> None:
        def resigned(_: HeadwaterError) -> None:
            if self.services.quorum_controller is active:
                self.services.quorum_controller = None
                self.raft.driver.resign(epoch)

        active = QuorumController(
            static=self.static,
            writer=self.writer,
            image=image,
            kraft_version=lambda: self.raft.client.kraft_version,
            session_timeout_ms=self.quorum.broker_session_timeout_ms,
            now_ms=self.clock.steady_ms,
            call_later=self._later,
            on_resigned=resigned,
        )
        self.services.quorum_controller = active
        active.start()


class KRaftBroker(LabNode):
    """A node with `process.roles=broker`, put together as `BrokerServer` does it."""

    def __init__(
        self, lab: KRaftLab, node_id: NodeId, texts: Mapping[str, str], *, skew_ms: int
    ) -> None:
        own = {name: text for name, text in texts.items() if not is_quorum_setting(name)}
        super().__init__(lab.time, lab.network, node_id, own, skew_ms=skew_ms)
        self.quorum = parse_quorum_settings({**texts, "process.roles": "broker"})
        self.disk.make_directory(METADATA)
        self._lab = lab
        lab.format(node_id, self.disk, (METADATA, *DIRECTORIES), voter=False)

    @property
    def image(self) -> ClusterImage:
        return self.publisher.image

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    @property
    def has_joined(self) -> bool:
        """Whether it runs, unfenced as far as it knows."""
        return self.is_up and self.lifecycle.state is BrokerState.RUNNING

    def start(self) -> None:
        self._begin()
        loop = VirtualLoop(self._later)
        dial = FakeDial(self.network_client)
        self.raft_executor = LaggingExecutor(self._lab.time.rand, self._later)
        self._is_closed = False
        self._has_observed = False
        self._is_registering = False
        self.observer = self._observer(loop, dial)
        self.channel = NodeToControllerChannelManager(
            self.node_id,
            controller=lambda: self.observer.controller_endpoint,
            dial=dial,
            clock=self.clock,
            call_soon=loop.call_soon,
        )
        self.lifecycle = BrokerLifecycleManager(
            heartbeat_interval_ms=self.quorum.broker_heartbeat_interval_ms
        )
        self.heartbeats = HeartbeatSender(
            self.lifecycle,
            channel=self.channel,
            applied_offset=lambda: self.observer.applied_offset,
            session_timeout_ms=self.quorum.broker_session_timeout_ms,
            clock=self.clock,
            loop=loop,
            on_answer=self._progress,
        )
        self.assignments = AssignmentsManager(self.node_id)
        self._build(ClusterImage(cluster_id=CLUSTER_ID))
        self.observer.start()
        self._sweep()

    def crash(self, *, loses_power: bool = False) -> None:
        self._end()
        self._end_on_disk(loses_power=loses_power)

    def stop(self) -> None:
        self.lifecycle.begin_controlled_shutdown(self.clock.steady_ms())
        self.heartbeats.begin_shutdown()
        self._deadline_ms = self.clock.steady_ms() + _LONGEST_SHUTDOWN_MS
        self._await_shutdown()

    def _await_shutdown(self) -> None:
        is_over = self.lifecycle.state is BrokerState.SHUTTING_DOWN
        if is_over or self.heartbeats.has_lost_controller(self._deadline_ms):
            self._close()
        else:
            self._later(_TICK_MS, self._await_shutdown)

    def _close(self) -> None:
        self._is_closed = True
        self.heartbeats.close()
        self._close_logs()
        self.channel.close()
        self.observer.close()
        self.raft_executor.finish()
        self.observer.close_log()
        self._end()
        # Files that a failed directory left open are closed with the process.
        self.disk.process_crash()

    # Composition.

    def _observer(self, loop: VirtualLoop, dial: FakeDial) -> MetadataObserver:
        meta = meta_properties.load(self.disk, METADATA)
        assert meta is not None
        assert meta.directory_id is not None
        return MetadataObserver(
            self.node_id,
            METADATA,
            directory_id=TopicId.parse(meta.directory_id),
            cluster_id=CLUSTER_ID,
            quorum=self.quorum,
            tools=RaftManagerTools(
                loop=loop,
                clock=self.clock,
                random=self.rng,
                disk=self.disk,
                executor=self.raft_executor,
                dial=dial,
            ),
            listener=self,
            broken=lambda reason: self.fatal.append(StorageError(reason)),
        )

    def _build(self, image: ClusterImage) -> None:
        client = ControllerAwareClient(self.network_client, self.channel)
        directories = self._open_logs(image, client)
        self.partitions.on_log_opened = self._report_directory
        self.publisher = BrokerMetadataPublisher(
            self.node_id, image, self._told, kraft_version=lambda: self.observer.kraft_version
        )
        self.member = KRaftForwardingManager(
            self.static,
            publisher=self.publisher,
            channel=self.channel,
            broker_epoch=lambda: self.broker_epoch,
            clock=self.clock,
            rng=self.rng,
            call_later=self._later,
        )
        self.broker = self._broker(directories, self.member)
        self.dispatch = Dispatch(
            self.broker,
            brokers_listener=LISTENER,
            cluster_apis=sorted(QUORUM_ADMIN_APIS),
            features=KRAFT_FEATURES,
        )

    def _register(self) -> None:
        directories = self.broker.directories
        epoch = directories.clean_broker_epoch()
        self.lifecycle.start(
            BrokerDetails(
                node_id=self.node_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=TopicId(self.rng.bytes(16)),
                endpoints=(BrokerEndpoint(listener=LISTENER, host="h", port=int(self.node_id)),),
                features=dict(KRAFT_FEATURES),
                rack=None,
                log_dirs=_directory_ids(each.directory_id for each in directories.serving()),
                previous_broker_epoch=NO_EPOCH if epoch is None else epoch,
            ),
            self.clock.steady_ms(),
        )
        self.heartbeats.reschedule()

    # Progress of a start.

    def _progress(self) -> None:
        """Take the next step of `BrokerServer.start` that is possible."""
        if self._is_closed:
            return
        if self._has_observed and not self._is_registering:
            self._is_registering = True
            self._start_ticks()
            self._register()
        if self.lifecycle.has_caught_up and not self.publisher.has_published:
            self.publisher.publish_first(self.observer.image, self.observer.applied_offset)
            self.controller_changed()
            self._open()
            self.lifecycle.set_ready_to_unfence(self.clock.steady_ms())
            self.heartbeats.reschedule()
        if self.has_joined and self.node_id in self.image.brokers:
            self.broker.producer_ids.prepare()

    # `MetadataImageListener`

    def committed(
        self, image: ClusterImage, changes: Sequence[MetadataChange], offset: int
    ) -> None:
        self._lab.store.applied(f"broker {self.node_id}", image, changes, offset)
        self.publisher.publish(image, changes, offset)

    def snapshot_loaded(self, image: ClusterImage, offset: int) -> None:
        self._lab.store.applied(f"broker {self.node_id}", image, None, offset)
        self.publisher.publish_snapshot(image, offset)

    def log_advanced(self) -> None:
        self._has_observed = True
        self._progress()

    def controller_changed(self) -> None:
        controller_id = self.observer.controller_id
        self.publisher.controller_changed(NO_CONTROLLER if controller_id is None else controller_id)
        self.channel.controller_changed()
        self.lifecycle.controller_changed(self.clock.steady_ms())
        self.heartbeats.reschedule()

    # Work in the background.

    def _sweep(self) -> None:
        self.observer.sweep()
        self.channel.sweep()
        if not self._has_observed and self.observer.has_caught_up:
            self.log_advanced()
        self._later(_TICK_MS, self._sweep)

    def _tick_others(self) -> None:
        request = self.assignments.next_request(self.clock.steady_ms(), self.broker_epoch)
        if request is None:
            return

        def answered(response: Message | None) -> None:
            assert response is None or isinstance(response, AssignReplicasToDirsResponse)
            self.assignments.handle_response(response, self.clock.steady_ms())

        self.channel.send_request(
            request,
            timeout_ms=self.static.settings.request_timeout_ms,
            then=answered,
            on_error=lambda _: answered(None),
            name=DIRECTORY_ASSIGNMENTS,
        )

    def _report_directory(self, partition: Partition) -> None:
        directory_id = self.broker.directories.directory_of(partition.name).directory_id
        state = self.image.partition(*partition.name)
        if directory_id is None or state is None:
            return
        actual = TopicId.parse(directory_id)
        if state.directory_of(self.node_id) != actual:
            self.assignments.assign(partition.topic_id, partition.number, actual)

    def _directory_failed(self) -> None:
        if not self.partitions.handle_failed_log_dirs():
            return
        failed = (each for each in self.broker.directories.directories if each.failure is not None)
        for each in _directory_ids(directory.directory_id for directory in failed):
            self.lifecycle.directory_failed(each, self.clock.steady_ms())
        self.heartbeats.reschedule()


def _directory_ids(found: Iterable[str | None]) -> list[TopicId]:
    return [TopicId.parse(each) for each in found if each is not None]
