"""A network between brokers in virtual time: delays, broken connections, cut links.

`join` gives a broker its `InterBrokerClient` and takes what serves the others' requests: any
callable, or a `Dispatch` by way of `served_by`. Messages are encoded, so anything that a version
cannot carry is noticed, and a response is overwritten after its callback has returned.

Note: a connection behaves like TCP. Nothing on it is lost alone or overtakes; a failure ends it as
a whole, and then it is unknown which of its requests were served. Some may still be served later:
bytes in flight arrive after their sender has given up, and after what it sends on its next
connection.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from headwater.common.exceptions import (
    ConnectionLost,
    ConnectionRefused,
    HeadwaterError,
    RequestTimedOut,
)
from headwater.common.ids import NodeId
from headwater.common.principal import ANONYMOUS, Requester
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.ports.inter_broker_client import OnResponse, Purpose
from headwater.metadata.ports.metadata_store import Failed
from headwater.network.request_service import ClientAddress, ResponseSlot
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, request_class, response_class, write
from headwater.protocol.headers import request_frame, response_body_position
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.stall import Stall
from tests.simulation.fakes.virtual_time import VirtualTime

Reply = Callable[[Message], None]
Serve = Callable[[NodeId, Message, Reply], None]
"""Serves a request of a broker: now, later, or never."""

_SIZE_BYTES: Final = 4
_QUICK_MS: Final = 5
_SLOW_MS: Final = 400
_NOTICED_MS: Final = 20


class FakeNetwork:
    """Probabilities of loss and delay are those of the virtual time's weather."""

    def __init__(self, time: VirtualTime, *, goes_through_bytes: bool = True) -> None:
        self.time = time
        self.goes_through_bytes = goes_through_bytes
        self._nodes: dict[NodeId, FakeInterBrokerClient] = {}
        self._cuts: dict[tuple[NodeId, NodeId], None] = {}
        # Requests that were sent, and the size of their bodies where messages are encoded.
        self.sent: Counter[ApiKey] = Counter()
        self.sent_bytes = 0

    def join(
        self, node_id: NodeId, serve: Serve, stall: Stall | None = None
    ) -> FakeInterBrokerClient:
        """A broker started, maybe again. While it is stalled, it receives nothing."""
        assert node_id not in self._nodes, f"broker {node_id} is on the network already"
        joined = FakeInterBrokerClient(self, node_id, serve, stall or Stall())
        self._nodes[node_id] = joined
        return joined

    def leave(self, node_id: NodeId) -> None:
        """A broker's process ended: it receives nothing more, and the others notice."""
        gone = self._nodes.pop(node_id)
        gone.is_disconnected = True
        for other in self._nodes.values():
            other.lost_sight_of(node_id)

    def cut(self, one: NodeId, other: NodeId) -> None:
        """No message gets through between the two, and neither is notified."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, source: NodeId, target: NodeId) -> None:
        self._cuts[source, target] = None

    def isolate(self, node_id: NodeId) -> None:
        """Cut a broker off from all current brokers."""
        for other in self._nodes:
            if other != node_id:
                self.cut(node_id, other)

    @property
    def has_cuts(self) -> bool:
        return bool(self._cuts)

    def heal(self) -> None:
        """Repair all links."""
        self._cuts.clear()

    def node(self, node_id: NodeId) -> FakeInterBrokerClient | None:
        return self._nodes.get(node_id)

    def is_cut(self, source: NodeId, target: NodeId) -> bool:
        return (source, target) in self._cuts


@dataclass(slots=True, eq=False)
class SentRequest:
    """A request that waits for its response."""

    api: ApiKey
    then: OnResponse
    on_error: Failed
    response: Message | None = None
    has_left: bool = False


class FakeInterBrokerClient:
    """`InterBrokerClient` of one broker process."""

    def __init__(self, network: FakeNetwork, node_id: NodeId, serve: Serve, stall: Stall) -> None:
        self.node_id = node_id
        self.serve = serve
        self.stall = stall
        self.is_disconnected = False
        self.network = network
        self._connections: dict[tuple[NodeId, Purpose], SimulatedConnection] = {}
        self._held: dict[FakeConnection, None] = {}
        # Connections that `fake_channel` has opened.
        self._channels: dict[SimulatedConnection, None] = {}

    def send_request(
        self,
        node_id: NodeId,
        request: Message,
        *,
        purpose: Purpose,
        timeout_ms: int,
        then: OnResponse,
        on_error: Failed,
    ) -> None:
        assert not self.is_disconnected, f"broker {self.node_id} is gone, and asks {node_id}"
        asked = SentRequest(request.api, then, on_error)
        connection = self._connections.get((node_id, purpose))
        if connection is None or connection.is_broken:
            connection = SimulatedConnection(self.network, self, node_id)
            self._connections[node_id, purpose] = connection
        connection.send(asked, request, timeout_ms)

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        connection = self._connections.pop((node_id, purpose), None)
        if connection is not None:
            time = self.network.time
            lost = partial(connection.fail, ConnectionLost("closed on our side"))
            time.after(0, partial(self.stall.pass_on, lost))

    def lost_sight_of(self, node_id: NodeId) -> None:
        """For the network: a broker left, and its connections were closed."""
        for (other, _), connection in self._connections.items():
            if other == node_id:
                connection.break_soon()
        for connection in self._channels:
            if connection.target_id == node_id:
                connection.break_soon()
        for line in [each for each in self._held if each.target_id == node_id]:
            line.lose_soon(ConnectionLost("closed by the peer"))

    def dial(
        self,
        endpoint: BrokerEndpoint,
        deadline_ms: int,  # noqa: ARG002
        up: Callable[[], None],
        down: Callable[[ConnectionLost], None],
    ) -> FakeConnection:
        """`LivenessDial`; ports are broker numbers here."""
        line = FakeConnection(self, self.network, NodeId(endpoint.port), up, down)
        line.connect()
        return line

    def open_channel(
        self, node_id: NodeId, on_failure: Callable[[HeadwaterError], None]
    ) -> SimulatedConnection:
        """Open a connection whose owner is told when it fails: see `fake_channel`."""
        connection = SimulatedConnection(self.network, self, node_id)
        self._channels[connection] = None

        def failed(error: HeadwaterError) -> None:
            self._channels.pop(connection, None)
            on_failure(error)

        connection.on_failure = failed
        return connection

    def hold(self, line: FakeConnection, *, is_up: bool) -> None:
        if is_up:
            self._held[line] = None
        else:
            self._held.pop(line, None)


@dataclass(slots=True, eq=False)
class FakeConnection:
    """An idle connection: `LivenessConnection`."""

    source: FakeInterBrokerClient
    network: FakeNetwork
    target_id: NodeId
    up: Callable[[], None]
    down: Callable[[ConnectionLost], None]
    is_closed: bool = False

    def connect(self) -> None:
        self._soon(self._connect)

    def sweep(self, now_ms: int) -> None:
        """Connected or failed without it."""

    def close(self) -> None:
        self.is_closed = True
        self.source.hold(self, is_up=False)

    def lose_soon(self, lost: ConnectionLost) -> None:
        self._soon(partial(self._lose, lost))

    def _connect(self) -> None:
        there_and_back = [
            (self.source.node_id, self.target_id),
            (self.target_id, self.source.node_id),
        ]
        if any(self.network.is_cut(*way) for way in there_and_back):
            self._after(_SLOW_MS, partial(self._lose, RequestTimedOut("no response")))
        elif self.network.node(self.target_id) is None:
            self._lose(ConnectionRefused("connection refused"))
        else:
            # A stopped process is still connected by its kernel.
            self.source.hold(self, is_up=True)
            self.up()

    def _lose(self, lost: ConnectionLost) -> None:
        if not self.is_closed:
            self.close()
            self.down(lost)

    def _soon(self, action: Callable[[], None]) -> None:
        self._after(1 + self.network.time.rand.randrange(_NOTICED_MS), action)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self.is_closed and not self.source.is_disconnected:
                action()

        self.network.time.after(delay_ms, partial(self.source.stall.pass_on, act))


@dataclass(slots=True, eq=False)
class SimulatedConnection:
    """A connection to one broker until it fails.

    A silent one carries nothing any more, but its end has not been noticed yet.
    """

    network: FakeNetwork
    source: FakeInterBrokerClient
    target_id: NodeId
    is_broken: bool = False
    on_failure: Callable[[HeadwaterError], None] | None = None
    _is_silent: bool = False
    _asked: deque[SentRequest] = field(default_factory=deque)
    # Arrival times of the last message in each direction.
    _there_ms: int = 0
    _back_ms: int = 0

    def send(self, asked: SentRequest, request: Message, timeout_ms: int) -> None:
        time = self.network.time
        self._asked.append(asked)
        time.after(timeout_ms, partial(self.source.stall.pass_on, partial(self._time_out, asked)))
        target = self.network.node(self.target_id)
        if target is None or self.network.is_cut(self.source.node_id, self.target_id):
            self.break_soon()
        elif not self._goes_wrong():
            copied = self._copy(request, request_class(request.api))
            self.network.sent[request.api] += 1
            self._there_ms = max(self._there_ms, self._arrival_ms())
            arrive = partial(self._arrive, target, asked, copied)
            time.after(self._there_ms - time.now_ms, partial(target.stall.pass_on, arrive))

    def fail(self, error: HeadwaterError) -> None:
        """Fail everything in flight."""
        self.is_broken = True
        while self._asked:
            asked = self._asked.popleft()
            if not self.source.is_disconnected:
                asked.on_error(error)
        on_failure, self.on_failure = self.on_failure, None
        if on_failure is not None and not self.source.is_disconnected:
            on_failure(error)

    def break_soon(self) -> None:
        self.is_broken = True
        lost = ConnectionLost(f"broker {self.target_id} cannot be reached")
        delay_ms = 1 + self.network.time.rand.randrange(_NOTICED_MS)
        fail = partial(self.fail, lost)
        self.network.time.after(delay_ms, partial(self.source.stall.pass_on, fail))

    def _arrive(self, target: FakeInterBrokerClient, asked: SentRequest, request: Message) -> None:
        if self.network.is_cut(self.source.node_id, target.node_id):
            self._is_silent = True
        elif not target.is_disconnected:
            target.serve(self.source.node_id, request, partial(self._answer, target, asked))

    def _answer(self, target: FakeInterBrokerClient, asked: SentRequest, response: Message) -> None:
        """Responses are sent in request order."""
        if target.is_disconnected or self.is_broken:
            return
        # The response's bytes belong to the target and may be gone when this returns.
        asked.response = self._copy(response, response_class(response.api))
        for each in self._asked:
            if each.response is None:
                return
            if not each.has_left:
                each.has_left = True
                self._return(target, each, each.response)

    def _return(self, target: FakeInterBrokerClient, asked: SentRequest, response: Message) -> None:
        time = self.network.time
        if self.network.is_cut(target.node_id, self.source.node_id):
            self._is_silent = True
        elif not self._goes_wrong():
            self._back_ms = max(self._back_ms, self._arrival_ms())
            deliver = partial(self._deliver, asked, response)
            time.after(self._back_ms - time.now_ms, partial(self.source.stall.pass_on, deliver))

    def _deliver(self, asked: SentRequest, response: Message) -> None:
        if asked not in self._asked:
            return
        self._asked.remove(asked)
        if not self.source.is_disconnected:
            self._tell(asked, response)

    def _tell(self, asked: SentRequest, response: Message) -> None:
        if not self.network.goes_through_bytes:
            asked.then(response)
            return
        body = _bytes_of(response)
        asked.then(_read(response_class(asked.api), body))
        body[:] = bytes(len(body))

    def _goes_wrong(self) -> bool:
        """Either end notices, or none until a timeout."""
        time = self.network.time
        if not self._is_silent and time.happens(time.weather.loss):
            self._is_silent = True
            if time.happens(0.5):
                self.break_soon()
        return self._is_silent

    def _time_out(self, asked: SentRequest) -> None:
        """As in Kafka's clients, one request timeout ends the whole connection."""
        if asked in self._asked:
            self.fail(RequestTimedOut(f"broker {self.target_id} did not answer in time"))

    def _arrival_ms(self) -> int:
        time = self.network.time
        delay_ms = 1 + time.rand.randrange(_QUICK_MS)
        if time.happens(time.weather.delay):
            delay_ms += time.rand.randrange(_SLOW_MS)
        return time.now_ms + delay_ms

    def _copy(self, message: Message, shape: type[Message]) -> Message:
        if not self.network.goes_through_bytes:
            return message
        body = _bytes_of(message)
        if shape is request_class(message.api):
            self.network.sent_bytes += len(body)
        return _read(shape, body)


class Served(Protocol):
    """A `headwater.broker.requests.dispatch.Dispatch`, or anything that takes frames like one."""

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None: ...


def served_by(dispatch: Served, *, listener: str = "PLAINTEXT") -> Serve:
    """Serve requests of other brokers as frames for a dispatch."""

    def serve(source: NodeId, request: Message, reply: Reply) -> None:
        api = APIS[request.api]
        version = api.newest_served(unstable=False)
        parts = request_frame(api, version, 1, f"broker-{source}", write(request, version))
        frame = bytearray(_joined(parts))[_SIZE_BYTES:]

        def answered(slot: ResponseSlot) -> None:
            assert slot.parts is not None
            answer = memoryview(_joined(slot.parts))[_SIZE_BYTES:]
            position = response_body_position(api, version, answer)
            reply(read(response_class(request.api), version, answer[position:]))

        # If the connection is closed instead, the request times out.
        with suppress(ConnectionLost):
            dispatch.serve(ResponseSlot(_BrokerPeer(source, listener, answered)), memoryview(frame))
        frame[:] = bytes(len(frame))

    return serve


class _BrokerPeer:
    """The other end of a connection: `headwater.network.request_service.ServedConnection`."""

    def __init__(
        self, source: NodeId, listener: str, answered: Callable[[ResponseSlot], None]
    ) -> None:
        self.address = ClientAddress(listener=listener, peer_host="192.0.2.1", peer_port=source)
        self.requester = Requester(ANONYMOUS, "192.0.2.1")
        self.is_closed = False
        self._answered = answered

    def mute(self, until_ms: int) -> None:
        """Brokers are not throttled by muting."""

    def unmute(self, now_ms: int) -> None:
        """Never muted."""

    def close(self) -> None:
        self.is_closed = True

    def on_response(self, slot: ResponseSlot) -> None:
        if not self.is_closed:
            self._answered(slot)

    def on_hold(self, slot: ResponseSlot) -> None:
        """Brokers send one request after the other where it matters."""

    def on_steps(self, slot: ResponseSlot, steps: Iterator[None], size_bytes: int) -> None:  # noqa: ARG002
        """Executed at once; interleaving is tested with single connections."""
        for _ in steps:
            pass


def _bytes_of(message: Message) -> bytearray:
    return bytearray(_joined(write(message, _version_of(message.api))))


def _read(shape: type[Message], body: bytearray) -> Message:
    return read(shape, _version_of(shape.api), memoryview(body))


def _version_of(api: ApiKey) -> int:
    return APIS[api].newest_served(unstable=False)


def _joined(parts: Sequence[object]) -> bytes:
    return b"".join(_content(part) for part in parts)


def _content(part: object) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview), "a fake disk has no ranges to send"
    return bytes(part)
