"""When a broker counts as dead by its refusals, and when it does not."""

from collections.abc import Callable

import pytest

from headwater.broker.inter_broker.liveness import (
    KNOCK_MS,
    LONGEST_REST_MS,
    REFUSALS,
    ConnectionLiveness,
)
from headwater.common.exceptions import ConnectionLost, PeerRefused
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.ports.liveness import LivenessRole
from tests.simulation.labs.broker_lab import ScriptedClock

TWO = NodeId(2)
REFUSED = PeerRefused("nobody listens")
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
    """Vigils, the connections they make, and the waits between those."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.waits: list[int] = []
        self.dead: list[str] = []
        self.is_known = True
        self._timers: list[Callable[[], None]] = []
        self.liveness = ConnectionLiveness(
            directory=self, dial=self._dial, clock=ScriptedClock(), later=self._later
        )

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        where = BrokerEndpoint(listener="PLAINTEXT", host="h", port=int(node_id))
        return where if self.is_known else None

    def watch(self, concern: LivenessRole = LivenessRole.REGISTRATION) -> None:
        self.liveness.keep(TWO, concern, refused=lambda: self.dead.append(concern.value))

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


def test_who_was_reached_and_refuses_again_and_again_is_dead(lab: Lab) -> None:
    lab.watch()
    lab.lines[0].up()
    lab.lines[0].down(CLOSED)
    lab.ring()
    lab.refuse(REFUSALS - 1)
    assert lab.dead == []
    lab.refuse(1)
    assert lab.dead == ["registration"]
    assert lab.waits == [KNOCK_MS] * REFUSALS


def test_nobody_is_told_twice_and_nobody_knocks_any_more(lab: Lab) -> None:
    lab.watch()
    die(lab)
    count = len(lab.lines)
    lab.ring()
    assert lab.dead == ["registration"]
    assert len(lab.lines) == count


def test_who_was_never_reached_may_refuse_for_ever_and_is_asked_ever_less(lab: Lab) -> None:
    lab.watch()
    lab.refuse(20)
    assert lab.dead == []
    assert lab.waits[0] == KNOCK_MS
    assert lab.waits[-1] == LONGEST_REST_MS


@pytest.mark.parametrize("between", [CLOSED, ConnectionLost("no route to host")])
def test_only_refusals_in_a_row_count(lab: Lab, between: ConnectionLost) -> None:
    lab.watch()
    lab.lines[0].up()
    lab.lines[0].down(CLOSED)
    lab.ring()
    for _ in range(5):
        lab.refuse(REFUSALS - 1)
        lab.lines[-1].down(between)
        lab.ring()
    assert lab.dead == []


def test_one_that_comes_back_between_its_refusals_lives(lab: Lab) -> None:
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


def test_a_broker_that_nobody_knows_yet_is_looked_for(lab: Lab) -> None:
    lab.is_known = False
    lab.watch()
    assert lab.lines == []
    lab.is_known = True
    lab.ring()
    die(lab)
    assert lab.dead == ["registration"]


def test_the_next_controller_need_not_reach_the_one_whose_death_made_it_controller(
    lab: Lab,
) -> None:
    lab.watch(LivenessRole.CONTROL)
    die(lab)
    lab.watch(LivenessRole.REGISTRATION)
    lab.refuse(REFUSALS)
    assert lab.dead == ["control", "registration"]


@pytest.mark.parametrize("concern", list(LivenessRole))
def test_who_was_taken_for_dead_and_cannot_be_reached_since_is_left_in_peace(
    lab: Lab, concern: LivenessRole
) -> None:
    """It may live, and be reached by all others: then it would be taken for dead for ever."""
    lab.watch(concern)
    die(lab)
    lab.watch(concern)
    lab.refuse(5 * REFUSALS)
    assert lab.dead == [concern.value]
    die(lab)
    assert lab.dead == [concern.value] * 2


def test_a_vigil_that_has_ended_tells_nothing_and_lets_go(lab: Lab) -> None:
    liveness_watch = lab.liveness.keep(
        TWO, LivenessRole.CONTROL, refused=lambda: lab.dead.append("told")
    )
    lab.lines[0].up()
    liveness_watch.end()
    lab.lines[0].down(CLOSED)
    lab.ring()
    assert lab.lines[0].is_closed
    assert len(lab.lines) == 1
    assert lab.dead == []


def test_who_accepts_and_hangs_up_is_asked_ever_less(lab: Lab) -> None:
    lab.watch()
    for _ in range(10):
        lab.lines[-1].up()
        lab.lines[-1].down(CLOSED)
        lab.ring()
    assert lab.waits[-1] == LONGEST_REST_MS
    lab.lines[-1].up()
    lab.liveness.sweep()
    lab.lines[-1].down(CLOSED)
    assert lab.waits[-1] == KNOCK_MS
