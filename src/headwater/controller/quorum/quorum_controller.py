"""The active controller of a KRaft cluster (Kafka: QuorumController).

A `Controller` whose store is the metadata log, while this node leads the quorum. Brokers register
and send heartbeats to it; that they come and go is a decision here and a record in the log, where a
controller on ZooKeeper observes sessions. Everything else is the same code.

The epoch of a broker is the offset of its registration: see `QuorumWriter.next_write_offset`.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.controller.controller import Controller
from headwater.controller.controller_channel_manager import CallLater
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.eligible_leader_replicas import required_configs
from headwater.controller.quorum.broker_heartbeat_manager import (
    BrokerControlState,
    BrokerHeartbeatManager,
)
from headwater.controller.quorum.cluster_control import (
    HeldPartitions,
    assign_replicas_to_dirs,
    begin_controlled_shutdown,
    fence_brokers,
    has_movable_leaderships,
    register_broker,
    register_controller,
    take_directories_offline,
    unfence_broker,
)
from headwater.metadata.cluster_image import BrokerRegistration, ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.ports.metadata_store import ChangeWriter, Failed
from headwater.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from headwater.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headwater.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from headwater.protocol.messages.controller_registration import ControllerRegistrationRequest

_log = logging.getLogger(__name__)


class QuorumWriter(ChangeWriter, Protocol):
    """The metadata log of the active controller."""

    @property
    def next_write_offset(self) -> int:
        """At most the offset of the next record, and above all offsets before it."""


class QuorumController:
    """Created when this node becomes the leader, with the image of the log."""

    def __init__(
        self,
        *,
        static: StaticConfig,
        writer: QuorumWriter,
        image: ClusterImage,
        kraft_version: Callable[[], int],
        session_timeout_ms: int,
        now_ms: Callable[[], int],
        call_later: CallLater,
        on_resigned: Failed,
    ) -> None:
        """`now_ms` is a clock that never goes back."""
        self._static = static
        self._writer = writer
        self._kraft_version = kraft_version
        self._now_ms = now_ms
        self._heartbeats = BrokerHeartbeatManager(session_timeout_ms)
        self._controller = Controller(
            static=static,
            store=writer,
            image=image,
            call_later=call_later,
            on_resigned=on_resigned,
        )

    @property
    def event_queue(self) -> DeferredEventQueue:
        return self._controller.event_queue

    def start(self) -> None:
        image = self.event_queue.image
        now_ms = self._now_ms()
        for broker in (*image.brokers.values(), *image.fenced_brokers.values()):
            self._heartbeats.register(broker.node_id, is_fenced=broker.is_fenced, now_ms=now_ms)
        # Each write in the log has all that follows from it, so there are no elections to make up.
        self._controller.start(is_settled=True)

    def stop(self) -> None:
        """Stop deciding: this node does not lead the quorum any more."""
        self._controller.stop()

    # Brokers.

    def register_broker(
        self,
        request: BrokerRegistrationRequest,
        *,
        then: Callable[[BrokerRegistrationResponse], None],
        on_error: Failed,
    ) -> None:
        node_id = NodeId(request.broker_id)

        def decide(image: ClusterImage) -> ControllerResult[BrokerRegistration | ApiError]:
            result = register_broker(
                image,
                request,
                broker_epoch=self._writer.next_write_offset,
                finalized={**image.features, "kraft.version": self._kraft_version()},
                has_valid_session=self._heartbeats.has_valid_session(node_id, self._now_ms()),
                held=self._held_by([node_id]),
            )
            broker = result.answer
            if isinstance(broker, BrokerRegistration):
                # Before the record is committed: the next decision builds on it.
                self._heartbeats.register(
                    node_id, is_fenced=broker.is_fenced, now_ms=self._now_ms()
                )
            return result

        def decided(outcome: BrokerRegistration | ApiError) -> None:
            if isinstance(outcome, ApiError):
                _log.info(
                    "Refused registration: broker_id=%d error=%s reason=%s",
                    node_id,
                    outcome.code.name,
                    outcome.reason,
                )
                then(BrokerRegistrationResponse(error_code=outcome.code))
                return
            _log.info(
                "Registered broker: broker_id=%d broker_epoch=%d incarnation_id=%s",
                node_id,
                outcome.epoch,
                outcome.incarnation_id,
            )
            then(BrokerRegistrationResponse(broker_epoch=outcome.epoch))

        self.event_queue.submit(decide, then=decided, on_error=on_error)

    def heartbeat(
        self,
        request: BrokerHeartbeatRequest,
        *,
        then: Callable[[BrokerHeartbeatResponse], None],
        on_error: Failed,
    ) -> None:
        """Handle a heartbeat: fence, unfence or let the broker stop."""
        node_id = NodeId(request.broker_id)
        image = self.event_queue.proposed
        broker = image.registration(node_id)
        if broker is None or broker.epoch != request.broker_epoch:
            then(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            return
        current, state = self._heartbeats.next_state(
            request,
            registration_offset=broker.epoch,
            has_leaderships=request.want_shut_down
            and has_movable_leaderships(image, node_id, self._controller.held_by(node_id)),
        )
        self._heartbeats.touch(
            node_id,
            is_fenced=state.is_fenced,
            metadata_offset=request.current_metadata_offset,
            now_ms=self._now_ms(),
        )
        if state is not current:
            _log.info(
                "Broker changes state: broker_id=%d from=%s to=%s",
                node_id,
                current.value,
                state.value,
            )
            self._enter(node_id, state)
        # Most heartbeats report nothing new and must cost nothing: a broker may have many replicas.
        if any(each in broker.log_dirs for each in request.offline_log_dirs):
            self._decide(
                partial(
                    take_directories_offline,
                    node_id=node_id,
                    offline=request.offline_log_dirs,
                    held=self._held_by([node_id]),
                )
            )
        response = BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= broker.epoch,
            is_fenced=state.is_fenced,
            should_shut_down=state is BrokerControlState.SHUTDOWN_NOW,
        )
        self.event_queue.submit(
            lambda _: ControllerResult((), response), then=then, on_error=on_error
        )

    def expire_sessions(self) -> int:
        """Fence brokers whose session has ended and return their number.

        Called several times a second.
        """
        self._put_elr_in_force()
        stale = self._heartbeats.stale_brokers(self._now_ms())
        if not stale:
            return 0
        for node_id in stale:
            _log.warning("Fencing broker, its session has ended: broker_id=%d", node_id)
            self._heartbeats.fence(node_id)
        self._decide(partial(fence_brokers, node_ids=stale, held=self._held_by(stale)))
        return len(stale)

    def broker_refused(self, broker: BrokerRegistration) -> None:
        """Fence a broker whose process has ended, before its session ends.

        A broker that is alive after all is unfenced by its next heartbeat.
        """
        known = self.event_queue.proposed.brokers.get(broker.node_id)
        if known is None or known.epoch != broker.epoch:
            return
        node_id = broker.node_id
        _log.warning("Fencing broker, it refuses connections: broker_id=%d", node_id)
        self._heartbeats.fence(node_id)
        self._decide(partial(fence_brokers, node_ids=[node_id], held=self._held_by([node_id])))

    def _put_elr_in_force(self) -> None:
        """After a change of the feature level, and in a log that has no default yet."""
        if required_configs(self.event_queue.proposed, self._static):
            self._decide(
                lambda image: ControllerResult(required_configs(image, self._static), None)
            )

    def assign_replicas_to_dirs(
        self,
        request: AssignReplicasToDirsRequest,
        *,
        then: Callable[[AssignReplicasToDirsResponse], None],
        on_error: Failed,
    ) -> None:
        decide = partial(
            assign_replicas_to_dirs,
            request=request,
            may_be_unclean=self._controller.may_be_unclean,
        )
        self.event_queue.submit(decide, then=then, on_error=on_error)

    # Controllers.

    def register_controller(
        self,
        request: ControllerRegistrationRequest,
        *,
        then: Callable[[None], None],
        on_error: Failed,
    ) -> None:
        self.event_queue.submit(
            partial(register_controller, request=request), then=then, on_error=on_error
        )

    # Decisions.

    def _enter(self, node_id: NodeId, state: BrokerControlState) -> None:
        held = self._held_by([node_id])
        match state:
            case BrokerControlState.FENCED | BrokerControlState.SHUTDOWN_NOW:
                self._decide(partial(fence_brokers, node_ids=[node_id], held=held))
            case BrokerControlState.UNFENCED:
                self._decide(partial(unfence_broker, node_id=node_id, held=held))
            case BrokerControlState.CONTROLLED_SHUTDOWN:
                self._decide(partial(begin_controlled_shutdown, node_id=node_id, held=held))
                # The other brokers must know their new roles before this one stops.
                self._heartbeats.begin_controlled_shutdown(
                    node_id, self._writer.next_write_offset - 1
                )

    def _held_by(self, node_ids: Sequence[NodeId]) -> HeldPartitions:
        held = {name: None for each in node_ids for name in self._controller.held_by(each)}
        return HeldPartitions(list(held), self._controller.may_be_unclean)

    def _decide(self, decide: Callable[[ClusterImage], ControllerResult[None]]) -> None:
        # A failed write ends this controller.
        self.event_queue.submit(decide, then=_ignore, on_error=_ignore)


def _ignore(_: object) -> None:
    """Nothing waits for this result."""
