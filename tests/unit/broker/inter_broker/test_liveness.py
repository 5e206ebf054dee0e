"""When a broker that refuses connections counts as dead."""

from collections.abc import Callable

import pytest

from headwater.broker.inter_broker.liveness import (
    RECONNECT_MAX_MS,
    RECONNECT_MS,
    REFUSALS,
    ConnectionLiveness,
)
from headwater.common.exceptions import ConnectionLost, ConnectionRefused
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.ports.liveness import LivenessRole
from tests.simulation.labs.broker_lab import ScriptedClock

TWO = NodeId(2)
REFUSED = ConnectionRefused("connection refused")
CLOSED = ConnectionLost("closed by the peer")


class Line:
    """A connection, played by the test."""

    def __init__(self, up: Callable[[], None], down: Callable[[ConnectionLost], None]) -> None:
        self.up = up
        self.down = down
        self.is_closed = False

    def sweep(self, now_ms: int) -> None:
        """The real one has tests of its own."""

    def close(self) -> None:
        self.is_closed = True


class Lab:
    """Watches, their connections, and the waits between those."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.waits: list[int] = []
        self.dead: list[str] = []
        self.is_known = True
        self._timers: list[Callable[[], None]] = []
        self.liveness = ConnectionLiveness(
            directory=self, dial=self._dial, clock=ScriptedClock(), call_later=self._later
        )

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        where = BrokerEndpoint(listener="PLAINTEXT", host="h", port=int(node_id))
        return where if self.is_known else None

    def watch(self, concern: LivenessRole = LivenessRole.REGISTRATION) -> None:
        self.liveness.watch(TWO, concern, on_refused=lambda: self.dead.append(concern.value))

    def ring(self) -> None:
        timers, self._timers = self._timers, []
        for timer in timers:
            timer()

    def refuse(self, times: int) -> None:
        for _ in range(times):
            self.lines[-1].down(REFUSED)
            self.ring()

    def _dial(
        self,
        _: BrokerEndpoint,
        __: int,
        up: Callable[[], None],
        down: Callable[[ConnectionLost], None],
    ) -> Line:
        self.lines.append(Line(up, down))
        return self.lines[-1]

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.waits.append(delay_ms)
        self._timers.append(action)


@pytest.fixture
def lab() -> Lab:
    return Lab()


def die(lab: Lab) -> None:
    lab.lines[-1].up()
    lab.lines[-1].down(CLOSED)
    lab.ring()
    lab.refuse(REFUSALS)


def test_reached_broker_that_refuses_repeatedly_is_dead(lab: Lab) -> None:
    lab.watch()
    lab.lines[0].up()
    lab.lines[0].down(CLOSED)
    lab.ring()
    lab.refuse(REFUSALS - 1)
    assert lab.dead == []
    lab.refuse(1)
    assert lab.dead == ["registration"]
    assert lab.waits == [RECONNECT_MS] * REFUSALS


def test_death_is_reported_once_and_ends_the_watch(lab: Lab) -> None:
    lab.watch()
    die(lab)
    count = len(lab.lines)
    lab.ring()
    assert lab.dead == ["registration"]
    assert len(lab.lines) == count


def test_broker_never_reached_may_refuse_and_is_retried_with_backoff(lab: Lab) -> None:
    lab.watch()
    lab.refuse(20)
    assert lab.dead == []
    assert lab.waits[0] == RECONNECT_MS
    assert lab.waits[-1] == RECONNECT_MAX_MS


@pytest.mark.parametrize("between", [CLOSED, ConnectionLost("no route to host")])
def test_only_consecutive_refusals_count(lab: Lab, between: ConnectionLost) -> None:
    lab.watch()
    lab.lines[0].up()
    lab.lines[0].down(CLOSED)
    lab.ring()
    for _ in range(5):
        lab.refuse(REFUSALS - 1)
        lab.lines[-1].down(between)
        lab.ring()
    assert lab.dead == []


def test_broker_that_comes_back_between_refusals_is_alive(lab: Lab) -> None:
    lab.watch()
    lab.lines[0].up()
    lab.lines[0].down(CLOSED)
    lab.ring()
    lab.refuse(REFUSALS - 1)
    lab.lines[-1].up()
    lab.lines[-1].down(CLOSED)
    lab.ring()
    lab.refuse(REFUSALS - 1)
    assert lab.dead == []


def test_unregistered_broker_is_looked_up_again(lab: Lab) -> None:
    lab.is_known = False
    lab.watch()
    assert lab.lines == []
    lab.is_known = True
    lab.ring()
    die(lab)
    assert lab.dead == ["registration"]


def test_next_controller_need_not_have_reached_the_dead_one(
    lab: Lab,
) -> None:
    lab.watch(LivenessRole.CONTROL)
    die(lab)
    lab.watch(LivenessRole.REGISTRATION)
    lab.refuse(REFUSALS)
    assert lab.dead == ["control", "registration"]


@pytest.mark.parametrize("concern", list(LivenessRole))
def test_broker_declared_dead_and_unreachable_since_is_not_declared_dead_again(
    lab: Lab, concern: LivenessRole
) -> None:
    """It may be alive and reachable for others: then it would be declared dead for ever."""
    lab.watch(concern)
    die(lab)
    lab.watch(concern)
    lab.refuse(5 * REFUSALS)
    assert lab.dead == [concern.value]
    die(lab)
    assert lab.dead == [concern.value] * 2


def test_ended_watch_reports_nothing_and_closes_its_connection(lab: Lab) -> None:
    liveness_watch = lab.liveness.watch(
        TWO, LivenessRole.CONTROL, on_refused=lambda: lab.dead.append("told")
    )
    lab.lines[0].up()
    liveness_watch.end()
    lab.lines[0].down(CLOSED)
    lab.ring()
    assert lab.lines[0].is_closed
    assert len(lab.lines) == 1
    assert lab.dead == []


def test_broker_that_accepts_and_closes_is_retried_with_backoff(lab: Lab) -> None:
    lab.watch()
    for _ in range(10):
        lab.lines[-1].up()
        lab.lines[-1].down(CLOSED)
        lab.ring()
    assert lab.waits[-1] == RECONNECT_MAX_MS
    lab.lines[-1].up()
    lab.liveness.sweep()
    lab.lines[-1].down(CLOSED)
    assert lab.waits[-1] == RECONNECT_MS
