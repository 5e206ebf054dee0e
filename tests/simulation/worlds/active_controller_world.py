"""The active controller on a quorum of lossy disks, and brokers that send heartbeats.

Controllers run the shipped replica, loader, writer and `QuorumController`. Brokers are fakes that
register and send heartbeats; they hold no records. Every committed image is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.controller.quorum.quorum_controller import QuorumController
from headwater.metadata.changes import BrokerRegistered, MetadataChange
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.metadata_records import FeatureLevelRecord
from headwater.metadata_store.raft.metadata_loader import MetadataLoader
from headwater.metadata_store.raft.quorum_change_writer import QuorumChangeWriter
from headwater.metadata_store.raft.raft_driver import RaftDriver
from headwater.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headwater.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import LeaderAndEpoch
from headwater.raft.replicated_log import OffsetAndEpoch
from tests.simulation.worlds.quorum_checks import CheckFailed
from tests.simulation.worlds.quorum_world import CLUSTER_ID, QuorumNode, QuorumWorld

SESSION_MS: Final = 3_000
HEARTBEAT_MS: Final = 500
_TICK_MS: Final = 100
_FEATURE: Final = "metadata.version"
_LEVEL: Final = 27


def comparable(image: ClusterImage) -> tuple[object, ...]:
    """An image without its version, and without versions of ACLs."""
    return (
        dict(image.topics.items()),
        dict(image.brokers),
        dict(image.fenced_brokers),
        dict(image.features),
        image.next_producer_id,
    )


@dataclass(slots=True)
class ControllerChecks:
    """What must hold for every committed image."""

    # The image at each offset, by the first replica that applied it.
    images: dict[int, tuple[object, ...]] = field(default_factory=dict)
    epochs: dict[tuple[NodeId, TopicId], int] = field(default_factory=dict)
    registrations: int = 0

    def committed(self, image: ClusterImage, changes: list[MetadataChange], end: int) -> None:
        found = comparable(image)
        if self.images.setdefault(end, found) != found:
            raise CheckFailed(f"replicas have different images at offset {end}")
        for change in changes:
            if isinstance(change, BrokerRegistered):
                broker = change.broker
                self._check_epoch(broker.node_id, broker.incarnation_id, broker.epoch)
        self._check_partitions(image)

    def _check_epoch(self, node_id: NodeId, incarnation_id: TopicId, epoch: int) -> None:
        known = self.epochs.get((node_id, incarnation_id))
        if known is None:
            self.registrations += 1
            if epoch in self.epochs.values():
                raise CheckFailed(f"broker {node_id} got epoch {epoch}, which another one has")
            self.epochs[node_id, incarnation_id] = epoch
        elif known != epoch:
            raise CheckFailed(f"one incarnation of {node_id} has epochs {known} and {epoch}")

    def _check_partitions(self, image: ClusterImage) -> None:
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                name = f"{topic.name}-{number}"
                live = [each for each in partition.isr if each in image.brokers]
                if not partition.isr:
                    raise CheckFailed(f"{name} has no ISR")
                if partition.leader == NO_LEADER:
                    if live:
                        raise CheckFailed(f"{name} has no leader, but {live} could lead")
                elif partition.leader not in live:
                    raise CheckFailed(f"{name} is led by {partition.leader}, live ISR: {live}")
                # A fenced broker may have restarted and lost records.
                if live and len(live) < len(partition.isr):
                    raise CheckFailed(f"{name} has fenced members in its ISR: {partition.isr}")


@dataclass(slots=True, kw_only=True)
class ControllerNode(QuorumNode):
    """A replica with the controller on it."""

    loader: MetadataLoader | None = None
    writer: QuorumChangeWriter | None = None
    active: QuorumController | None = None

    def prepare(self, driver: RaftDriver) -> None:
        self.active = None
        self.loader = MetadataLoader(CLUSTER_ID, driver.client, self.log)
        self.writer = QuorumChangeWriter(
            self.node_id,
            driver,
            self.loader,
            bootstrap=[FeatureLevelRecord(name=_FEATURE, feature_level=_LEVEL)],
            now_ms=self.now_ms,
        )
        self._tick(self.life)

    def crash(self) -> None:
        # A process that ends answers nothing.
        self.active = self.loader = self.writer = None
        QuorumNode.crash(self)

    def handle_commit(self, start_offset: int, end_offset: int) -> None:
        QuorumNode.handle_commit(self, start_offset, end_offset)
        assert self.loader is not None
        assert self.writer is not None
        changes = self.loader.commit(start_offset, end_offset)
        controller_checks(self.world).committed(self.loader.image, changes, end_offset)
        self.writer.committed(end_offset)

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        QuorumNode.handle_load_snapshot(self, snapshot_id)
        assert self.loader is not None
        self.loader.load_snapshot(snapshot_id)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        QuorumNode.handle_leader_change(self, leader)
        assert self.writer is not None
        before, self.active = self.active, None
        self.writer.leader_changed(leader)
        if before is not None:
            before.stop()
        if self.writer.image is not None:
            self._become_active(self.writer, self.writer.image)

    def _become_active(self, writer: QuorumChangeWriter, image: ClusterImage) -> None:
        self.active = QuorumController(
            static=StaticConfig.parse(
                {"node.id": str(self.node_id), "auto.leader.rebalance.enable": "false"}
            ),
            writer=writer,
            image=image,
            kraft_version=lambda: 1,
            session_timeout_ms=SESSION_MS,
            now_ms=self.now_ms,
            call_later=self._later,
            on_resigned=lambda _: None,
        )
        self.active.start()

    def _later(self, delay_ms: int, work: Callable[[], None]) -> None:
        life = self.life
        self.world.time.after(delay_ms, lambda: work() if self.life == life else None)

    def _tick(self, life: int) -> None:
        if self.life != life or self.loader is None:
            return
        if self.active is not None:
            self.active.expire_sessions()
        self.world.time.after(_TICK_MS, partial(self._tick, life))


@dataclass(slots=True)
class ActiveControllerWorld(QuorumWorld):
    """Controllers, and the checks over their images."""

    controller_checks: ControllerChecks = field(default_factory=ControllerChecks)

    @property
    def controllers(self) -> list[ControllerNode]:
        return [each for each in self.nodes.values() if isinstance(each, ControllerNode)]


def controller_checks(world: QuorumWorld) -> ControllerChecks:
    assert isinstance(world, ActiveControllerWorld)
    return world.controller_checks


@dataclass(slots=True, eq=False)
class SimulatedBroker:
    """Registers and sends heartbeats to the controller that it believes to be active."""

    world: ActiveControllerWorld
    node_id: int
    incarnation: int = 0
    epoch: int | None = None
    is_up: bool = False
    is_stalled: bool = False
    is_fenced: bool = True
    wants_to_stop: bool = False
    _target: int = 0
    _offset: int = -1

    @property
    def incarnation_id(self) -> TopicId:
        return TopicId(bytes([self.node_id, self.incarnation]) * 8)

    def start(self) -> None:
        """A new process: what it registered before is of another incarnation."""
        self.incarnation += 1
        self.is_up, self.is_stalled, self.wants_to_stop = True, False, False
        self.epoch, self.is_fenced, self._offset = None, True, -1
        self._beat(self.incarnation)

    def crash(self) -> None:
        self.is_up = False

    def _beat(self, incarnation: int) -> None:
        if not self.is_up or self.incarnation != incarnation:
            return
        if not self.is_stalled:
            self._send(self._request())
        self.world.time.after(HEARTBEAT_MS, partial(self._beat, incarnation))

    def _request(self) -> BrokerRegistrationRequest | BrokerHeartbeatRequest:
        if self.epoch is None:
            supported = (
                Feature(name=_FEATURE, min_supported_version=7, max_supported_version=_LEVEL),
                Feature(name="kraft.version", min_supported_version=0, max_supported_version=1),
            )
            return BrokerRegistrationRequest(
                broker_id=self.node_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=self.incarnation_id,
                features=supported,
                log_dirs=(TopicId(bytes([self.node_id, 1]) * 8),),
            )
        # It replays the log of some controller.
        node = self.world.time.rand.choice(self.world.controllers)
        if node.loader is not None:
            self._offset = max(self._offset, node.loader.end.offset - 1)
        return BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._offset,
            want_shut_down=self.wants_to_stop,
        )

    def _send(self, request: BrokerRegistrationRequest | BrokerHeartbeatRequest) -> None:
        incarnation = self.incarnation
        target = self.world.controllers[self._target]

        def answered(response: Message | None) -> None:
            if self.incarnation == incarnation and self.is_up:
                self._handle(response)

        def respond(response: Message) -> None:
            self.world.deliver(target.node_id, self.node_id, response, answered)

        def arrived(_: Message | None) -> None:
            active = target.active
            if active is None:
                answered(None)
            elif isinstance(request, BrokerRegistrationRequest):
                active.register_broker(request, then=respond, on_error=lambda _: answered(None))
            else:
                active.heartbeat(request, then=respond, on_error=lambda _: answered(None))

        self.world.deliver(self.node_id, target.node_id, request, arrived)

    def _handle(self, response: Message | None) -> None:
        match response:
            case BrokerRegistrationResponse(error_code=ErrorCode.NONE, broker_epoch=epoch):
                self.epoch = epoch
            case BrokerHeartbeatResponse(error_code=ErrorCode.NONE):
                self.is_fenced = response.is_fenced
                if response.should_shut_down:
                    self.crash()
            case None:
                self._target = self.world.time.rand.randrange(len(self.world.controllers))
            case _:
                pass
