"""Sessions of brokers, and what a heartbeat leads to."""

import pytest

from headwater.common.ids import NodeId
from headwater.controller.quorum.broker_heartbeat_manager import (
    BrokerControlState,
    BrokerHeartbeatManager,
)
from headwater.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest

FENCED = BrokerControlState.FENCED
UNFENCED = BrokerControlState.UNFENCED
CONTROLLED_SHUTDOWN = BrokerControlState.CONTROLLED_SHUTDOWN
SHUTDOWN_NOW = BrokerControlState.SHUTDOWN_NOW
ONE, TWO = NodeId(1), NodeId(2)
REGISTRATION_OFFSET = 100
TIMEOUT_MS = 9_000


def manager(*, is_fenced: bool) -> BrokerHeartbeatManager:
    found = BrokerHeartbeatManager(TIMEOUT_MS)
    found.register(ONE, is_fenced=is_fenced, now_ms=0)
    return found


def next_state(
    heartbeats: BrokerHeartbeatManager,
    *,
    has_leaderships: bool = False,
    offset: int = REGISTRATION_OFFSET,
    want_fence: bool = False,
    want_shut_down: bool = False,
) -> BrokerControlState:
    request = BrokerHeartbeatRequest(
        broker_id=ONE,
        current_metadata_offset=offset,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )
    _, state = heartbeats.next_state(
        request, registration_offset=REGISTRATION_OFFSET, has_leaderships=has_leaderships
    )
    return state


def test_a_broker_is_unfenced_once_it_has_replayed_its_registration() -> None:
    heartbeats = manager(is_fenced=True)
    assert next_state(heartbeats, offset=REGISTRATION_OFFSET - 1) is FENCED
    assert next_state(heartbeats, want_fence=True) is FENCED
    assert next_state(heartbeats) is UNFENCED
    assert next_state(heartbeats, want_shut_down=True) is SHUTDOWN_NOW


@pytest.mark.parametrize(
    ("want_fence", "want_shut_down", "has_leaderships", "expected"),
    [
        (False, False, True, UNFENCED),
        (True, False, True, FENCED),
        (True, True, True, SHUTDOWN_NOW),
        (False, True, True, CONTROLLED_SHUTDOWN),
        (False, True, False, SHUTDOWN_NOW),
    ],
)
def test_an_unfenced_broker_gets_what_it_wants(
    want_fence: bool, want_shut_down: bool, has_leaderships: bool, expected: BrokerControlState
) -> None:
    state = next_state(
        manager(is_fenced=False),
        want_fence=want_fence,
        want_shut_down=want_shut_down,
        has_leaderships=has_leaderships,
    )
    assert state is expected


def test_a_stopping_broker_waits_until_the_others_know_their_new_roles() -> None:
    heartbeats = manager(is_fenced=False)
    heartbeats.register(TWO, is_fenced=False, now_ms=0)
    heartbeats.touch(TWO, is_fenced=False, metadata_offset=149, now_ms=0)
    heartbeats.begin_controlled_shutdown(ONE, 150)
    assert next_state(heartbeats, want_shut_down=True) is CONTROLLED_SHUTDOWN
    heartbeats.touch(TWO, is_fenced=False, metadata_offset=150, now_ms=0)
    assert next_state(heartbeats, want_shut_down=True, has_leaderships=True) is CONTROLLED_SHUTDOWN
    assert next_state(heartbeats, want_shut_down=True) is SHUTDOWN_NOW
    # Fenced brokers do not count: they may never catch up.
    heartbeats.touch(TWO, is_fenced=True, metadata_offset=0, now_ms=0)
    assert next_state(heartbeats, want_shut_down=True) is SHUTDOWN_NOW


def test_a_session_ends_after_its_timeout_unless_a_heartbeat_extends_it() -> None:
    heartbeats = manager(is_fenced=False)
    heartbeats.register(TWO, is_fenced=False, now_ms=0)
    for now_ms in range(0, TIMEOUT_MS + 1, 100):
        assert heartbeats.stale_brokers(now_ms) == []
    heartbeats.touch(TWO, is_fenced=False, metadata_offset=1, now_ms=TIMEOUT_MS)
    assert heartbeats.has_valid_session(ONE, TIMEOUT_MS)
    assert heartbeats.stale_brokers(TIMEOUT_MS + 1) == [ONE]
    assert not heartbeats.has_valid_session(ONE, TIMEOUT_MS + 1)
    heartbeats.fence(ONE)
    assert heartbeats.stale_brokers(TIMEOUT_MS + 1) == []
    heartbeats.remove(TWO)
    assert not heartbeats.has_valid_session(TWO, TIMEOUT_MS)


def test_a_suspended_controller_does_not_end_sessions_when_it_goes_on() -> None:
    heartbeats = manager(is_fenced=False)
    assert heartbeats.stale_brokers(0) == []
    assert heartbeats.stale_brokers(10 * TIMEOUT_MS) == []
    for now_ms in range(10 * TIMEOUT_MS, 11 * TIMEOUT_MS + 1, 100):
        assert heartbeats.stale_brokers(now_ms) == []
    assert heartbeats.stale_brokers(11 * TIMEOUT_MS + 1) == [ONE]


def test_a_fenced_broker_has_no_session() -> None:
    heartbeats = manager(is_fenced=True)
    assert not heartbeats.has_valid_session(ONE, 0)
    for now_ms in range(0, 2 * TIMEOUT_MS, 100):
        assert heartbeats.stale_brokers(now_ms) == []
