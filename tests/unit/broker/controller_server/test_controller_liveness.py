"""Which nodes a controller watches, and what it does when one refuses connections."""

from collections.abc import Callable

import pytest

from headwater.broker.controller_server.controller_liveness import (
    BrokerEndpoints,
    ControllerLiveness,
    LeaderEndpoint,
)
from headwater.broker.inter_broker.liveness import REFUSALS, ConnectionLiveness
from headwater.common.exceptions import ConnectionLost, ConnectionRefused
from headwater.common.ids import NodeId
from headwater.metadata.changes import BrokerGone, BrokerRegistered, apply
from headwater.metadata.cluster_image import (
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    Version,
)
from headwater.raft.election_state import LeaderAndEpoch
from headwater.raft.voter_set import Node
from tests.simulation.labs.broker_lab import ScriptedClock

ONE, TWO = NodeId(1), NodeId(2)
PLAIN = BrokerEndpoint(listener="PLAINTEXT", host="h", port=1)
TLS = BrokerEndpoint(listener="SECURE", host="h", port=2, security_protocol="SSL")


class Line:
    """A connection, played by the test."""

    def __init__(self, up: Callable[[], None], down: Callable[[ConnectionLost], None]) -> None:
        self.up = up
        self.down = down
        self.is_closed = False

    def sweep(self, now_ms: int) -> None:
        """Connections of the test have no deadline."""

    def close(self) -> None:
        self.is_closed = True


class Lab:
    """The watches of controller 0 and their connections, by port."""

    def __init__(self) -> None:
        self.image = ClusterImage(cluster_id="a-cluster", version=Version(3, 0))
        self.lines: dict[int, Line] = {}
        self.refused: list[object] = []
        self._timers: list[Callable[[], None]] = []
        self.liveness = ControllerLiveness(
            NodeId(0),
            brokers=self._connections(
                BrokerEndpoints(lambda: self.image, listener="PLAINTEXT", has_tls=False)
            ),
            controllers=self._connections(LeaderEndpoint(lambda: Node(1, "h", 9093))),
            on_broker_refused=self.refused.append,
            on_leader_refused=self.refused.append,
        )

    def _connections(self, directory: BrokerEndpoints | LeaderEndpoint) -> ConnectionLiveness:
        return ConnectionLiveness(
            directory=directory,
            dial=self._dial,
            clock=ScriptedClock(),
            call_later=lambda _delay_ms, work: self._timers.append(work),
        )

    def add(self, node_id: NodeId, epoch: int) -> BrokerRegistration:
        endpoint = BrokerEndpoint(listener="PLAINTEXT", host="h", port=100 * node_id + epoch)
        broker = BrokerRegistration(node_id=node_id, epoch=epoch, endpoints=(endpoint,))
        changes = [BrokerRegistered(broker)]
        self.image = apply(self.image, changes, self.image.version)
        return broker

    def remove(self, node_id: NodeId) -> None:
        self.image = apply(self.image, [BrokerGone(node_id)], self.image.version)

    def watch(self, *, is_active: bool) -> None:
        self.liveness.watch_brokers(self.image, is_active=is_active)

    def refuse(self, port: int) -> None:
        for _ in range(REFUSALS):
            self.lines[port].down(ConnectionRefused("connection refused"))
            timers, self._timers = self._timers, []
            for timer in timers:
                timer()

    def end_process(self, port: int) -> None:
        self.lines[port].down(ConnectionLost("closed by the peer"))
        timers, self._timers = self._timers, []
        for timer in timers:
            timer()
        self.refuse(port)

    def _dial(
        self,
        endpoint: BrokerEndpoint,
        _: int,
        up: Callable[[], None],
        down: Callable[[ConnectionLost], None],
    ) -> Line:
        self.lines[endpoint.port] = Line(up, down)
        return self.lines[endpoint.port]


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_an_active_controller_is_told_of_a_broker_that_refuses(lab: Lab) -> None:
    broker = lab.add(ONE, 5)
    lab.watch(is_active=True)
    lab.lines[105].up()
    lab.end_process(105)
    assert lab.refused == [broker]


def test_a_standby_controller_does_nothing_until_it_is_active(lab: Lab) -> None:
    broker = lab.add(ONE, 5)
    lab.watch(is_active=False)
    lab.lines[105].up()
    lab.end_process(105)
    assert lab.refused == []
    lab.watch(is_active=True)
    lab.refuse(105)
    assert lab.refused == [broker]


def test_the_watch_of_a_broker_ends_with_its_registration(lab: Lab) -> None:
    lab.add(ONE, 5)
    lab.add(TWO, 6)
    lab.watch(is_active=True)
    for each in (105, 206):
        lab.lines[each].up()
    lab.add(ONE, 7)
    lab.remove(TWO)
    lab.watch(is_active=True)
    assert [port for port, line in lab.lines.items() if line.is_closed] == [105, 206]
    assert not lab.lines[107].is_closed


def test_a_controller_does_not_watch_its_own_broker(lab: Lab) -> None:
    lab.add(NodeId(0), 5)
    lab.watch(is_active=True)
    assert lab.lines == {}


def test_a_voter_is_told_that_the_leader_refuses(lab: Lab) -> None:
    leader = LeaderAndEpoch(1, 4)
    lab.liveness.watch_leader(leader)
    lab.lines[9093].up()
    lab.liveness.watch_leader(leader)
    lab.end_process(9093)
    assert lab.refused == [leader]


@pytest.mark.parametrize("leader", [LeaderAndEpoch(0, 5), LeaderAndEpoch(None, 5)])
def test_the_watch_of_a_leader_ends_with_its_epoch(lab: Lab, leader: LeaderAndEpoch) -> None:
    lab.liveness.watch_leader(LeaderAndEpoch(1, 4))
    lab.liveness.watch_leader(leader)
    assert lab.lines[9093].is_closed
    assert len(lab.lines) == 1


@pytest.mark.parametrize(
    ("endpoints", "listener", "has_tls", "expected"),
    [
        ((TLS, PLAIN), "PLAINTEXT", False, PLAIN),
        ((PLAIN, TLS), "SECURE", True, TLS),
        # This controller does not know the listener, or has no TLS settings for it.
        ((TLS, PLAIN), "OTHER", False, PLAIN),
        ((TLS,), "OTHER", False, None),
        ((TLS,), "SECURE", False, None),
    ],
)
def test_a_broker_is_watched_at_its_listener_for_brokers(
    endpoints: tuple[BrokerEndpoint, ...],
    listener: str,
    has_tls: bool,
    expected: BrokerEndpoint | None,
) -> None:
    broker = BrokerRegistration(node_id=ONE, epoch=5, endpoints=endpoints)
    image = apply(
        ClusterImage(cluster_id="a-cluster"),
        [BrokerRegistered(broker)],
        Version(3, 0),
    )
    directory = BrokerEndpoints(lambda: image, listener=listener, has_tls=has_tls)
    assert directory.endpoint(ONE) == expected
    assert directory.endpoint(TWO) is None
