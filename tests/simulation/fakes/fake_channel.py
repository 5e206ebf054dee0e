"""Connections of the shipped `InterBrokerChannel` on the fake network, and a loop in virtual time.

A channel sends frames. They are decoded, travel as messages like all others on the fake network,
and come back as frames of the version that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from headwater.broker.inter_broker.request import Buffer
from headwater.common.exceptions import (
    ConnectionLost,
    ConnectionRefused,
    HeadwaterError,
    RequestTimedOut,
)
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import Api
from headwater.protocol.codec import read_request, write
from headwater.protocol.headers import read_request_header, response_frame
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.fake_network import (
    FakeInterBrokerClient,
    SentRequest,
    SimulatedConnection,
)

_SIZE_BYTES: Final = 4
_NOTICED_MS: Final = 20
_SLOW_MS: Final = 400
_HANDSHAKE_MS: Final = 1_000

CallLater = Callable[[int, Callable[[], None]], None]


@dataclass(slots=True, eq=False)
class VirtualHandle:
    """A callback of a `VirtualLoop`."""

    callback: Callable[[], object]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def run(self) -> None:
        if not self.is_cancelled:
            self.callback()


@dataclass(slots=True)
class VirtualLoop:
    """`headwater.broker.controller_server.raft_manager.Scheduler` of one process."""

    later: CallLater

    def call_soon(self, callback: Callable[[], object]) -> VirtualHandle:
        return self.call_later(0, callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> VirtualHandle:
        handle = VirtualHandle(callback)
        self.later(math.ceil(1_000 * delay), handle.run)
        return handle


class FakeDial:
    """`headwater.broker.inter_broker.channel.Dial` of one process; ports are node numbers."""

    def __init__(self, client: FakeInterBrokerClient) -> None:
        self._client = client

    def __call__(
        self,
        endpoint: BrokerEndpoint,
        deadline_ms: int,  # noqa: ARG002, it fails earlier here
        up: Callable[[], None],
        down: Callable[[ConnectionLost], None],
    ) -> FakeChannelConnection:
        return FakeChannelConnection(self._client, NodeId(endpoint.port), up, down)


class FakeChannelConnection:
    """`headwater.broker.inter_broker.channel.ChannelConnection`."""

    def __init__(
        self,
        client: FakeInterBrokerClient,
        target_id: NodeId,
        up: Callable[[], None],
        down: Callable[[ConnectionLost], None],
    ) -> None:
        self._client = client
        self._target_id = target_id
        self._up = up
        self._down = down
        self._connection: SimulatedConnection | None = None
        self._is_closed = False
        self._after_noticing(self._connect)

    @property
    def may_send(self) -> bool:
        return self._connection is not None and not self._connection.is_broken

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def send_request(
        self,
        correlation_id: int,
        parts: list[Buffer],
        *,
        deadline_ms: int,
        then: Callable[[memoryview], None],
        on_error: Callable[[ConnectionLost], None],
    ) -> None:
        assert self._connection is not None, "a request before the connection is up"
        frame = memoryview(b"".join(bytes(each) for each in parts))[_SIZE_BYTES:]
        header = read_request_header(frame)
        body = memoryview(bytes(frame[header.body_position :]))
        request = read_request(header.api.key, header.version, body)

        def answered(response: Message) -> None:
            then(_response_frame(header.api, header.version, correlation_id, response))

        sent = SentRequest(header.api.key, answered, lambda error: on_error(_lost(error)))
        timeout_ms = max(1, deadline_ms - self._client.network.time.now_ms)
        if header.api.key is ApiKey.API_VERSIONS:
            # A real connection would send it again.
            timeout_ms = min(timeout_ms, _HANDSHAKE_MS)
        self._connection.send(sent, request, timeout_ms)

    def sweep(self, now_ms: int) -> None:
        """Requests time out without it."""

    def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            self._connection.fail(ConnectionLost("closed on our side"))

    def _connect(self) -> None:
        source_id = self._client.node_id
        ways = [(source_id, self._target_id), (self._target_id, source_id)]
        network = self._client.network
        if any(network.is_cut(*way) for way in ways):
            lost = RequestTimedOut("no response")
            network.time.after(_SLOW_MS, partial(self._pass_on, partial(self._end, lost)))
        elif network.node(self._target_id) is None:
            self._end(ConnectionRefused("connection refused"))
        else:
            self._connection = self._client.open_channel(self._target_id, self._end)
            self._up()

    def _end(self, error: HeadwaterError) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._down(_lost(error))

    def _after_noticing(self, action: Callable[[], None]) -> None:
        time = self._client.network.time
        delay_ms = 1 + time.rand.randrange(_NOTICED_MS)
        time.after(delay_ms, partial(self._pass_on, action))

    def _pass_on(self, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self._is_closed and not self._client.is_disconnected:
                action()

        self._client.stall.pass_on(act)


def _lost(error: HeadwaterError) -> ConnectionLost:
    return error if isinstance(error, ConnectionLost) else ConnectionLost(str(error))


def _response_frame(api: Api, version: int, correlation_id: int, response: Message) -> memoryview:
    parts = response_frame(api, version, correlation_id, write(response, version))
    return memoryview(bytearray(b"".join(bytes(each) for each in parts)))[_SIZE_BYTES:]  # type: ignore[arg-type]
