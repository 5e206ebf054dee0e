"""Requests of a broker to itself: they end in one answer or one failure, in bounded time."""

from collections.abc import Callable

from headwater.broker.colleague_link import Line
from headwater.broker.colleagues import BrokerColleagues
from headwater.cluster.colleagues import Errand
from headwater.cluster.image import Endpoint
from headwater.model.failures import ConnectionLost, HeadwaterError, RequestTimedOut
from headwater.model.ids import NodeId
from headwater.net.service import ReplySlot, ServedConnection
from headwater.wire.lifting import Message
from headwater.wire.messages.controlled_shutdown import ControlledShutdownRequest
from tests.sim.broker_lab import ScriptedClock

TIMEOUT_MS = 30_000
REQUEST = ControlledShutdownRequest(broker_id=0, broker_epoch=1)


class SilentService:
    """Takes requests and keeps them."""

    def __init__(self) -> None:
        self.slots: list[ReplySlot] = []

    def serve(self, slot: ReplySlot, frame: memoryview) -> None:  # noqa: ARG002
        self.slots.append(slot)

    def failed(self, connection: ServedConnection, error: Exception) -> None:  # noqa: ARG002
        raise error

    def closed(self, connection: ServedConnection) -> None:
        """Nothing is kept for a connection."""


class Nowhere:
    def endpoint(self, node_id: NodeId) -> Endpoint | None:  # noqa: ARG002
        return None


class Lab:
    def __init__(self) -> None:
        self.clock = ScriptedClock()
        self.service = SilentService()
        self.outcomes: list[Message | HeadwaterError] = []
        self._due: list[Callable[[], None]] = []
        self.colleagues = BrokerColleagues(
            NodeId(0),
            directory=Nowhere(),
            dial=_never,
            clock=self.clock,
            soon=self._due.append,
        )
        self.colleagues.own_service = self.service
        self.colleagues.ask(
            NodeId(0),
            REQUEST,
            errand=Errand.PETITION,
            timeout_ms=TIMEOUT_MS,
            then=self.outcomes.append,
            otherwise=self.outcomes.append,
        )
        self.run()

    def run(self) -> None:
        while self._due:
            self._due.pop(0)()


def _never(*_: object) -> Line:
    raise AssertionError("nothing is sent over the network")


def test_a_request_that_a_broker_does_not_answer_itself_times_out() -> None:
    """The controller's own controlled shutdown waits for ZooKeeper, which may be away."""
    lab = Lab()
    lab.clock.move(TIMEOUT_MS - 1)
    lab.colleagues.sweep()
    assert lab.outcomes == []
    lab.clock.move(1)
    lab.colleagues.sweep()
    lab.colleagues.sweep()
    (outcome,) = lab.outcomes
    assert isinstance(outcome, RequestTimedOut)


def test_requests_to_itself_fail_when_the_broker_stops() -> None:
    lab = Lab()
    lab.colleagues.close()
    (outcome,) = lab.outcomes
    assert isinstance(outcome, ConnectionLost)
