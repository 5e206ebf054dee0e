"""Registration and heartbeats of a KRaft broker, step by step and against a controller model."""

import random
from dataclasses import dataclass, field, replace

import pytest

from headwater.broker.broker_server.broker_lifecycle_manager import (
    BrokerDetails,
    BrokerLifecycleManager,
    BrokerState,
    LifecycleRequest,
    LifecycleResponse,
)
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NodeId, TopicId
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

INTERVAL_MS = 2_000
INCARNATION = TopicId(b"incarnation-0001")
DIRECTORIES = (TopicId(b"directory-000002"), TopicId(b"directory-000001"))
DETAILS = BrokerDetails(
    node_id=NodeId(3),
    cluster_id="cluster",
    incarnation_id=INCARNATION,
    endpoints=[BrokerEndpoint(listener="SECURE", host="h", port=9093, security_protocol="SSL")],
    features={"metadata.version": Levels(7, 27)},
    rack="r1",
    log_dirs=DIRECTORIES,
    previous_broker_epoch=41,
)


def started(details: BrokerDetails = DETAILS) -> BrokerLifecycleManager:
    manager = BrokerLifecycleManager(heartbeat_interval_ms=INTERVAL_MS)
    manager.start(details, now_ms=0)
    return manager


def registered(now_ms: int = 0) -> BrokerLifecycleManager:
    manager = started()
    assert isinstance(manager.next_request(now_ms, -1), BrokerRegistrationRequest)
    manager.handle_response(BrokerRegistrationResponse(broker_epoch=50), now_ms)
    return manager


def running() -> BrokerLifecycleManager:
    manager = registered()
    manager.next_request(0, 50)
    manager.handle_response(BrokerHeartbeatResponse(is_caught_up=True), 0)
    manager.set_ready_to_unfence(0)
    manager.next_request(0, 50)
    manager.handle_response(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False), 0)
    assert manager.state is BrokerState.RUNNING
    return manager


def test_registration_has_what_the_controller_needs() -> None:
    assert started().next_request(0, -1) == BrokerRegistrationRequest(
        broker_id=3,
        cluster_id="cluster",
        incarnation_id=INCARNATION,
        listeners=(Listener(name="SECURE", host="h", port=9093, security_protocol=1),),
        features=(
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=27),
        ),
        rack="r1",
        log_dirs=tuple(sorted(DIRECTORIES)),
        previous_broker_epoch=41,
    )


def test_no_second_request_while_one_is_in_flight() -> None:
    manager = started()
    assert manager.next_request(0, -1) is not None
    assert manager.due_ms is None
    assert manager.next_request(10_000, -1) is None


def test_registered_broker_reports_its_metadata_offset_and_stays_fenced() -> None:
    manager = registered()
    assert manager.broker_epoch == 50
    assert manager.next_request(0, 17) == BrokerHeartbeatRequest(
        broker_id=3, broker_epoch=50, current_metadata_offset=17, want_fence=True
    )


def test_broker_is_starting_until_it_has_caught_up() -> None:
    manager = registered()
    manager.next_request(0, 17)
    manager.handle_response(BrokerHeartbeatResponse(is_caught_up=False), 0)
    assert not manager.has_caught_up
    due_ms = manager.due_ms
    assert due_ms is not None
    assert due_ms < INTERVAL_MS
    manager.next_request(due_ms, 60)
    manager.handle_response(BrokerHeartbeatResponse(is_caught_up=True), due_ms)
    assert manager.state is BrokerState.RECOVERY
    assert manager.has_caught_up


def test_ready_broker_asks_to_be_unfenced_at_once() -> None:
    manager = registered()
    manager.next_request(0, 60)
    manager.handle_response(BrokerHeartbeatResponse(is_caught_up=True), 0)
    manager.set_ready_to_unfence(5)
    request = manager.next_request(5, 60)
    assert isinstance(request, BrokerHeartbeatRequest)
    assert not request.want_fence


def test_readiness_during_a_heartbeat_is_reported_right_after_it() -> None:
    manager = registered()
    manager.next_request(0, 60)
    manager.set_ready_to_unfence(5)
    manager.handle_response(BrokerHeartbeatResponse(is_caught_up=True), 6)
    assert manager.due_ms == 6


def test_running_broker_sends_heartbeats_at_their_interval() -> None:
    manager = running()
    assert manager.due_ms == INTERVAL_MS
    assert manager.next_request(INTERVAL_MS - 1, 60) is None
    assert manager.next_request(INTERVAL_MS, 60) is not None


@pytest.mark.parametrize(
    "error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED]
)
def test_broker_registers_again_without_claiming_a_clean_shutdown(error: ErrorCode) -> None:
    manager = running()
    manager.next_request(INTERVAL_MS, 60)
    manager.handle_response(BrokerHeartbeatResponse(error_code=error), INTERVAL_MS)
    assert manager.due_ms is not None
    request = manager.next_request(manager.due_ms, 60)
    assert isinstance(request, BrokerRegistrationRequest)
    assert request.incarnation_id == INCARNATION
    assert request.previous_broker_epoch == NO_EPOCH
    manager.handle_response(BrokerRegistrationResponse(broker_epoch=70), 3_000)
    assert manager.broker_epoch == 70
    assert manager.state is BrokerState.RUNNING


def test_retry_of_an_unanswered_registration_keeps_the_previous_epoch() -> None:
    manager = started()
    first = manager.next_request(0, -1)
    manager.handle_response(None, 0)
    assert manager.due_ms is not None
    assert manager.next_request(manager.due_ms, -1) == first


def test_backoff_doubles_up_to_the_heartbeat_interval() -> None:
    manager = started()
    now_ms, delays = 0, []
    for _ in range(7):
        assert manager.next_request(now_ms, -1) is not None
        manager.handle_response(None, now_ms)
        assert manager.due_ms is not None
        delays.append(manager.due_ms - now_ms)
        now_ms = manager.due_ms
    assert delays == [100, 200, 400, 800, 1_600, INTERVAL_MS, INTERVAL_MS]


def test_new_controller_is_asked_at_once_after_failures() -> None:
    manager = running()
    manager.next_request(INTERVAL_MS, 60)
    manager.handle_response(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER), 2_000)
    manager.controller_changed(2_010)
    assert manager.due_ms == 2_010


def test_new_controller_does_not_cause_a_heartbeat_that_is_not_due() -> None:
    manager = running()
    manager.controller_changed(10)
    assert manager.due_ms == INTERVAL_MS


@pytest.mark.parametrize(
    "error", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION]
)
def test_refused_registration_is_not_repeated(error: ErrorCode) -> None:
    manager = started()
    manager.next_request(0, -1)
    manager.handle_response(BrokerRegistrationResponse(error_code=error), 0)
    assert manager.refusal is error
    assert manager.next_request(60_000, -1) is None


def test_duplicate_registration_is_retried_because_the_session_may_be_an_old_one() -> None:
    manager = started()
    manager.next_request(0, -1)
    duplicate = ErrorCode.DUPLICATE_BROKER_REGISTRATION
    manager.handle_response(BrokerRegistrationResponse(error_code=duplicate), 0)
    assert manager.refusal is None
    assert manager.last_error is duplicate
    assert manager.next_request(60_000, -1) is not None


def test_controlled_shutdown_ends_when_the_controller_says_so() -> None:
    manager = running()
    manager.begin_controlled_shutdown(100)
    request = manager.next_request(100, 60)
    assert isinstance(request, BrokerHeartbeatRequest)
    assert request.want_shut_down
    manager.handle_response(BrokerHeartbeatResponse(), 100)
    assert manager.due_ms == 150
    manager.next_request(150, 60)
    manager.handle_response(BrokerHeartbeatResponse(should_shut_down=True), 160)
    assert manager.state is BrokerState.SHUTTING_DOWN
    assert manager.due_ms is None


def test_broker_that_is_not_running_has_nothing_to_move() -> None:
    manager = registered()
    manager.begin_controlled_shutdown(0)
    assert manager.state is BrokerState.SHUTTING_DOWN


def test_failed_directory_is_reported_and_not_registered_again() -> None:
    manager = running()
    manager.directory_failed(DIRECTORIES[0], 100)
    request = manager.next_request(100, 60)
    assert isinstance(request, BrokerHeartbeatRequest)
    assert request.offline_log_dirs == (DIRECTORIES[0],)
    stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    manager.handle_response(stale, 100)
    request = manager.next_request(1_000, 60)
    assert isinstance(request, BrokerRegistrationRequest)
    assert request.log_dirs == (DIRECTORIES[1],)


@dataclass
class Controller:
    """A controller that fences, forgets, fails over and loses requests and responses."""

    rng: random.Random
    epoch: int = NO_EPOCH
    incarnation: TopicId | None = None
    is_fenced: bool = True
    next_offset: int = 1
    leaderships: int = 3
    # The previous broker epoch of each registration that was accepted.
    previous_epochs: list[int] = field(default_factory=list)

    def handle(self, request: LifecycleRequest) -> LifecycleResponse:
        if isinstance(request, BrokerRegistrationRequest):
            if self.epoch == NO_EPOCH or self.incarnation != request.incarnation_id:
                self.epoch, self.next_offset = self.next_offset, self.next_offset + 1
                self.is_fenced = True
            self.incarnation = request.incarnation_id
            self.previous_epochs.append(request.previous_broker_epoch)
            return BrokerRegistrationResponse(broker_epoch=self.epoch)
        if request.broker_epoch != self.epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        has_caught_up = request.current_metadata_offset >= self.epoch
        if has_caught_up and not request.want_fence:
            self.is_fenced = False
        if request.want_shut_down and self.leaderships:
            self.leaderships -= 1
        return BrokerHeartbeatResponse(
            is_caught_up=has_caught_up,
            is_fenced=self.is_fenced,
            should_shut_down=request.want_shut_down and not self.leaderships,
        )


@pytest.mark.parametrize("seed", range(200))
def test_every_broker_gets_running_and_stops_whatever_is_lost(seed: int) -> None:
    """Random losses, stale epochs and controllers that forget, then a quiet network."""
    rng = random.Random(seed)
    controller = Controller(rng)
    manager = started(replace(DETAILS, previous_broker_epoch=rng.choice([NO_EPOCH, 41])))
    now_ms, applied, is_stopping = 0, 0, False
    for step in range(2_000):
        is_calm = step >= 300
        assert manager.due_ms is not None
        now_ms = max(now_ms, manager.due_ms)
        applied = min(controller.next_offset, applied + rng.randrange(3))
        request = manager.next_request(now_ms, applied)
        assert request is not None
        was = manager.state
        if not is_calm and rng.random() < 0.1:
            # Another controller has no registration: for it the broker is gone.
            controller.epoch, controller.is_fenced = NO_EPOCH, True
        is_lost = not is_calm and rng.random() < 0.2
        response = None if is_lost else controller.handle(request)
        if not is_calm and rng.random() < 0.2:
            response = None
        if not is_calm and rng.random() < 0.1:
            response = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
        manager.handle_response(response, now_ms)
        if was is not BrokerState.RUNNING and manager.state is BrokerState.RUNNING:
            assert not controller.is_fenced
        if manager.state is BrokerState.RECOVERY:
            manager.set_ready_to_unfence(now_ms)
        if is_calm and manager.state is BrokerState.RUNNING and not is_stopping:
            is_stopping = True
            manager.begin_controlled_shutdown(now_ms)
        if manager.state is BrokerState.SHUTTING_DOWN:
            break
    assert manager.state is BrokerState.SHUTTING_DOWN
    assert controller.leaderships == 0
    # Once the broker knows that it was registered, it never claims a clean shutdown again.
    claims = [each for each in controller.previous_epochs if each != NO_EPOCH]
    assert claims == controller.previous_epochs[: len(claims)]
