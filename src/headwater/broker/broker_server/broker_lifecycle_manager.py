"""Registration and heartbeats of a KRaft broker (Kafka: BrokerLifecycleManager).

    STARTING                     registers, and waits until its image has its own registration
    RECOVERY                     has caught up; fenced until it says that it is ready
    RUNNING                      unfenced: it may lead partitions and join ISRs
    PENDING_CONTROLLED_SHUTDOWN  asks the controller to move its leaderships
    SHUTTING_DOWN                the controller has nothing left to move

Pure: the shell sends what `next_request` returns, one request at a time, and passes each outcome to
`handle_response`.

Note: a broker whose registration is gone or belongs to another process registers again and keeps
its state; the controller has fenced it meanwhile. It names its previous broker epoch only in its
first registration, and only if all log directories prove a clean shutdown (KIP-966).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NodeId, TopicId
from headwater.common.security_protocol import SecurityProtocol
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.features import Levels
from headwater.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headwater.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

_log = logging.getLogger(__name__)

_PROTOCOLS: Final = tuple(SecurityProtocol)
_FIRST_BACKOFF_MS: Final = 100
# Without recovery work, a starting broker is ready with its second heartbeat.
_STARTING_INTERVAL_MS: Final = 10
# The controller usually needs no longer than that to move leaderships.
_FIRST_SHUTDOWN_INTERVAL_MS: Final = 50
_UNREGISTERED: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})
_REFUSED: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Errors of a first registration that no retry changes."""

LifecycleRequest = BrokerRegistrationRequest | BrokerHeartbeatRequest
LifecycleResponse = BrokerRegistrationResponse | BrokerHeartbeatResponse


class BrokerState(Enum):
    """Names of Kafka's BrokerState."""

    NOT_RUNNING = "not running"
    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDetails:
    """What a broker registers with."""

    node_id: NodeId
    cluster_id: str
    incarnation_id: TopicId
    endpoints: Sequence[BrokerEndpoint]
    features: dict[str, Levels]
    rack: str | None
    log_dirs: Sequence[TopicId]
    previous_broker_epoch: int


class BrokerLifecycleManager:
    """The state of one broker process; times are those of a steady clock."""

    def __init__(self, *, heartbeat_interval_ms: int) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NO_EPOCH
        # The error of the last answer, for messages about a start that does not end.
        self.last_error: ErrorCode | None = None
        self.refusal: ErrorCode | None = None
        """Why this broker can never register as it is configured."""
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._details: BrokerDetails | None = None
        self._previous_broker_epoch = NO_EPOCH
        self._is_registered = False
        self._is_ready_to_unfence = False
        self._has_shutdown_response = False
        self._offline_log_dirs: dict[TopicId, None] = {}
        self._in_flight: LifecycleRequest | None = None
        self._must_hurry = False
        self._failures = 0
        self._due_ms = 0

    @property
    def has_caught_up(self) -> bool:
        """Whether the controller has confirmed that the image has this registration."""
        return self.state not in (BrokerState.NOT_RUNNING, BrokerState.STARTING)

    @property
    def due_ms(self) -> int | None:
        """When to call `next_request`; None while a request is in flight, or at the end."""
        if self._in_flight is not None or self._details is None:
            return None
        return None if self.state is BrokerState.SHUTTING_DOWN else self._due_ms

    def start(self, details: BrokerDetails, now_ms: int) -> None:
        self._details = details
        self._previous_broker_epoch = details.previous_broker_epoch
        self.state = BrokerState.STARTING
        self._due_ms = now_ms

    def set_ready_to_unfence(self, now_ms: int) -> None:
        """Logs are recovered and metadata is applied: the broker can lead."""
        self._is_ready_to_unfence = True
        self._hurry(now_ms)

    def begin_controlled_shutdown(self, now_ms: int) -> None:
        """Ask the controller to move leaderships; a fenced broker has none."""
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._hurry(now_ms)
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.state = BrokerState.SHUTTING_DOWN

    def directory_failed(self, directory_id: TopicId, now_ms: int) -> None:
        """Report a log directory as offline, from the next heartbeat on."""
        self._offline_log_dirs[directory_id] = None
        self._hurry(now_ms)

    def controller_changed(self, now_ms: int) -> None:
        """Another controller is known: do not wait for the end of a backoff."""
        if self._failures:
            self._failures = 0
            self._hurry(now_ms)

    def next_request(self, now_ms: int, metadata_offset: int) -> LifecycleRequest | None:
        """Return the request that is due; `metadata_offset` is the last one applied."""
        due_ms = self.due_ms
        if due_ms is None or now_ms < due_ms or self.refusal is not None:
            return None
        self._must_hurry = False
        self._in_flight = (
            self._heartbeat(metadata_offset) if self._is_registered else self._register()
        )
        return self._in_flight

    def handle_response(self, response: LifecycleResponse | None, now_ms: int) -> None:
        """Apply a response; None if the request failed or timed out."""
        sent, self._in_flight = self._in_flight, None
        match response:
            case BrokerRegistrationResponse() if isinstance(sent, BrokerRegistrationRequest):
                self._registration_answered(response, now_ms)
            case BrokerHeartbeatResponse() if isinstance(sent, BrokerHeartbeatRequest):
                self._heartbeat_answered(response, now_ms)
            case _:
                self._failed(now_ms)

    # Requests.

    def _register(self) -> BrokerRegistrationRequest:
        details = self._details
        assert details is not None
        return BrokerRegistrationRequest(
            broker_id=details.node_id,
            cluster_id=details.cluster_id,
            incarnation_id=details.incarnation_id,
            listeners=tuple(
                Listener(
                    name=each.listener,
                    host=each.host,
                    port=each.port,
                    security_protocol=_PROTOCOLS.index(SecurityProtocol(each.security_protocol)),
                )
                for each in details.endpoints
            ),
            features=tuple(
                Feature(
                    name=name,
                    min_supported_version=levels.lowest,
                    max_supported_version=levels.highest,
                )
                for name, levels in details.features.items()
            ),
            rack=details.rack,
            log_dirs=tuple(
                each for each in sorted(details.log_dirs) if each not in self._offline_log_dirs
            ),
            previous_broker_epoch=self._previous_broker_epoch,
        )

    def _heartbeat(self, metadata_offset: int) -> BrokerHeartbeatRequest:
        assert self._details is not None
        return BrokerHeartbeatRequest(
            broker_id=self._details.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=metadata_offset,
            want_fence=not self._is_ready_to_unfence,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=tuple(self._offline_log_dirs),
        )

    # Responses.

    def _registration_answered(self, response: BrokerRegistrationResponse, now_ms: int) -> None:
        error = response.error_code
        if error:
            self.last_error = error
            if self.broker_epoch == NO_EPOCH and error in _REFUSED:
                self.refusal = error
            _log.info("Registration failed, retrying: error=%s", error.name)
            self._failed(now_ms)
            return
        self._failures = 0
        self.last_error = None
        self.broker_epoch = response.broker_epoch
        self._is_registered = True
        self._previous_broker_epoch = NO_EPOCH
        _log.info("Registered: broker_epoch=%d", self.broker_epoch)
        self._due_ms = now_ms

    def _heartbeat_answered(self, response: BrokerHeartbeatResponse, now_ms: int) -> None:
        error = response.error_code
        if error:
            self.last_error = error
            if error in _UNREGISTERED:
                _log.warning("Registration lost, registering again: error=%s", error.name)
                self._is_registered = False
            self._failed(now_ms)
            return
        self._failures = 0
        self.last_error = None
        self._due_ms = now_ms + self._interval_after(response)
        if self._must_hurry:
            self._due_ms = now_ms

    def _interval_after(self, response: BrokerHeartbeatResponse) -> int:
        """Change the state as the controller says; return when to report again."""
        match self.state:
            case BrokerState.STARTING:
                if response.is_caught_up:
                    self.state = BrokerState.RECOVERY
                return _STARTING_INTERVAL_MS
            case BrokerState.RECOVERY:
                if not response.is_fenced:
                    self.state = BrokerState.RUNNING
                elif self._is_ready_to_unfence:
                    # The controller unfences it as soon as it has applied the newest metadata.
                    return _STARTING_INTERVAL_MS
            case BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                is_first, self._has_shutdown_response = not self._has_shutdown_response, True
                if response.should_shut_down:
                    self.state = BrokerState.SHUTTING_DOWN
                elif is_first:
                    return _FIRST_SHUTDOWN_INTERVAL_MS
            case _:
                pass
        return self._heartbeat_interval_ms

    def _failed(self, now_ms: int) -> None:
        delay_ms = _FIRST_BACKOFF_MS << min(self._failures, 16)
        self._failures += 1
        self._due_ms = now_ms + min(delay_ms, self._heartbeat_interval_ms)

    def _hurry(self, now_ms: int) -> None:
        """Report now, or as soon as the request in flight is answered."""
        self._must_hurry = True
        self._due_ms = now_ms
