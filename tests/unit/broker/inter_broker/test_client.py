"""Requests of a broker to itself: one response or one failure, in bounded time."""

from collections.abc import Callable

from headwater.broker.inter_broker.channel import ChannelConnection
from headwater.broker.inter_broker.client import NetworkInterBrokerClient
from headwater.common.exceptions import ConnectionLost, HeadwaterError, RequestTimedOut
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.network.request_service import ResponseSlot, ServedConnection
from headwater.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from headwater.protocol.older_versions import Message
from tests.simulation.labs.broker_lab import ScriptedClock

TIMEOUT_MS = 30_000
REQUEST = ControlledShutdownRequest(broker_id=0, broker_epoch=1)


class SilentService:
    """Takes requests and never answers."""

    def __init__(self) -> None:
        self.slots: list[ResponseSlot] = []

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:  # noqa: ARG002
        self.slots.append(slot)

    def failed(self, connection: ServedConnection, error: Exception) -> None:  # noqa: ARG002
        raise error

    def closed(self, connection: ServedConnection) -> None:
        """Nothing to do."""


class Nowhere:
    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:  # noqa: ARG002
        return None


class Lab:
    def __init__(self) -> None:
        self.clock = ScriptedClock()
        self.service = SilentService()
        self.outcomes: list[Message | HeadwaterError] = []
        self._due: list[Callable[[], None]] = []
        self.inter_broker_client = NetworkInterBrokerClient(
            NodeId(0),
            directory=Nowhere(),
            dial=_never,
            clock=self.clock,
            call_soon=self._due.append,
        )
        self.inter_broker_client.own_service = self.service
        self.inter_broker_client.send_request(
            NodeId(0),
            REQUEST,
            purpose=Purpose.TO_CONTROLLER,
            timeout_ms=TIMEOUT_MS,
            then=self.outcomes.append,
            on_error=self.outcomes.append,
        )
        self.run()

    def run(self) -> None:
        while self._due:
            self._due.pop(0)()


def _never(*_: object) -> ChannelConnection:
    raise AssertionError("nothing is sent over the network")


def test_request_to_itself_times_out() -> None:
    """ControlledShutdown on the controller itself waits for ZooKeeper, which may be unavailable."""
    lab = Lab()
    lab.clock.move(TIMEOUT_MS - 1)
    lab.inter_broker_client.sweep()
    assert lab.outcomes == []
    lab.clock.move(1)
    lab.inter_broker_client.sweep()
    lab.inter_broker_client.sweep()
    (outcome,) = lab.outcomes
    assert isinstance(outcome, RequestTimedOut)


def test_requests_to_itself_fail_when_the_broker_stops() -> None:
    lab = Lab()
    lab.inter_broker_client.close()
    (outcome,) = lab.outcomes
    assert isinstance(outcome, ConnectionLost)
