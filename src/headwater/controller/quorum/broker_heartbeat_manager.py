"""Track the sessions of brokers by their heartbeats (KIP-631).

Only the active controller has this state, and none of it is stored. A new active controller starts
a session for every broker, so that each has the whole timeout to find it before it is fenced.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headwater.common.ids import NodeId
from headwater.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest

_NONE: Final = -1


class BrokerControlState(Enum):
    """What the controller lets a broker do."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"
    SHUTDOWN_NOW = "shutdown-now"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


@dataclass(slots=True)
class BrokerHeartbeatState:
    """What is known of one broker from its heartbeats."""

    is_fenced: bool
    last_contact_ms: int
    metadata_offset: int = _NONE
    # The offset that other brokers must have reached before this one may stop.
    controlled_shutdown_offset: int = _NONE

    @property
    def is_stopping(self) -> bool:
        return self.controlled_shutdown_offset != _NONE


class BrokerHeartbeatManager:
    """The sessions of all registered brokers."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._brokers: dict[NodeId, BrokerHeartbeatState] = {}
        self._checked_ms: int | None = None

    def register(self, node_id: NodeId, *, is_fenced: bool, now_ms: int) -> None:
        """Start the session of a registration."""
        self._brokers[node_id] = BrokerHeartbeatState(is_fenced, now_ms)

    def remove(self, node_id: NodeId) -> None:
        self._brokers.pop(node_id, None)

    def has_valid_session(self, node_id: NodeId, now_ms: int) -> bool:
        """Return whether a broker is unfenced and has sent a heartbeat within the timeout."""
        broker = self._brokers.get(node_id)
        return broker is not None and not broker.is_fenced and not self._is_stale(broker, now_ms)

    def touch(self, node_id: NodeId, *, is_fenced: bool, metadata_offset: int, now_ms: int) -> None:
        """Record a heartbeat."""
        broker = self._brokers[node_id]
        broker.is_fenced = is_fenced
        broker.last_contact_ms = now_ms
        broker.metadata_offset = metadata_offset
        if is_fenced:
            # A fenced broker may stop at once.
            broker.controlled_shutdown_offset = _NONE

    def fence(self, node_id: NodeId) -> None:
        broker = self._brokers.get(node_id)
        if broker is not None:
            broker.is_fenced = True
            broker.controlled_shutdown_offset = _NONE

    def begin_controlled_shutdown(self, node_id: NodeId, offset: int) -> None:
        """The change that moved leaders off a broker has this offset."""
        broker = self._brokers.get(node_id)
        if broker is not None and not broker.is_fenced and not broker.is_stopping:
            broker.controlled_shutdown_offset = offset

    def stale_brokers(self, now_ms: int) -> list[NodeId]:
        """Return unfenced brokers whose session has ended; called several times a second.

        Note: if this process itself was suspended, heartbeats may be waiting in its sockets, so
        sessions are extended by the time that it was away.
        """
        before_ms, self._checked_ms = self._checked_ms, now_ms
        if before_ms is not None and now_ms - before_ms > self._session_timeout_ms // 2:
            for broker in self._brokers.values():
                broker.last_contact_ms += now_ms - before_ms
        return [
            node_id
            for node_id, broker in self._brokers.items()
            if not broker.is_fenced and self._is_stale(broker, now_ms)
        ]

    def next_state(
        self,
        request: BrokerHeartbeatRequest,
        *,
        registration_offset: int,
        has_leaderships: bool,
    ) -> tuple[BrokerControlState, BrokerControlState]:
        """Return the current state of a broker and the one that its heartbeat leads to."""
        broker = self._brokers[NodeId(request.broker_id)]
        if broker.is_stopping:
            current = BrokerControlState.CONTROLLED_SHUTDOWN
        elif broker.is_fenced:
            current = BrokerControlState.FENCED
        else:
            current = BrokerControlState.UNFENCED
        match current:
            case BrokerControlState.FENCED:
                return current, _after_fenced(request, registration_offset)
            case BrokerControlState.UNFENCED:
                return current, _after_unfenced(request, has_leaderships=has_leaderships)
            case _:
                offset = broker.controlled_shutdown_offset
                may_stop = not has_leaderships and offset <= self._lowest_active_offset()
                return current, BrokerControlState.SHUTDOWN_NOW if may_stop else current

    def _lowest_active_offset(self) -> float:
        """Return the metadata offset that all unfenced brokers have reached."""
        offsets = [
            each.metadata_offset
            for each in self._brokers.values()
            if not each.is_fenced and not each.is_stopping
        ]
        return min(offsets, default=float("inf"))

    def _is_stale(self, broker: BrokerHeartbeatState, now_ms: int) -> bool:
        return broker.last_contact_ms + self._session_timeout_ms < now_ms


def _after_fenced(request: BrokerHeartbeatRequest, registration_offset: int) -> BrokerControlState:
    if request.want_shut_down:
        return BrokerControlState.SHUTDOWN_NOW
    is_caught_up = request.current_metadata_offset >= registration_offset
    if request.want_fence or not is_caught_up:
        return BrokerControlState.FENCED
    return BrokerControlState.UNFENCED


def _after_unfenced(
    request: BrokerHeartbeatRequest, *, has_leaderships: bool
) -> BrokerControlState:
    if request.want_shut_down:
        if request.want_fence or not has_leaderships:
            return BrokerControlState.SHUTDOWN_NOW
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.FENCED if request.want_fence else BrokerControlState.UNFENCED
