"""`InterBrokerClient` over network connections.

After a connection has failed, requests fail at once until a backoff has passed that doubles with
each failure (like `reconnect.backoff.ms` of Kafka's clients). A request fails with the connection
that it was given to.

Requests of this broker to itself go through its own dispatch, one iteration of the loop later. They
have a deadline too, since their response may depend on an unavailable metadata store.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from headwater.broker.inter_broker.channel import Dial, InterBrokerChannel, LogIn
from headwater.broker.inter_broker.request import (
    InterBrokerRequest,
    PendingResponse,
    read_answer,
    request_frame_of,
)
from headwater.broker.requests.internal_call import INTERNAL_LISTENER, InternalConnection
from headwater.common.exceptions import ConnectionLost, HeadwaterError, RequestTimedOut
from headwater.common.ids import NodeId
from headwater.common.ports import Clock
from headwater.common.principal import BROKER_PRINCIPAL, Requester
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.ports.inter_broker_client import OnResponse, Purpose
from headwater.metadata.ports.metadata_store import Failed
from headwater.network.request_service import ClientAddress, ResponseSlot, Service
from headwater.protocol.api_table import APIS
from headwater.protocol.older_versions import Message

CallSoon = Callable[[Callable[[], None]], object]

_SIZE_BYTES: Final = 4


class BrokerDirectory(Protocol):
    """Looks up broker endpoints."""

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        """Return a broker's endpoint; None if it is not registered."""


class NetworkInterBrokerClient:
    """Client for all other brokers, on the loop's thread. The owner calls `sweep`."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        directory: BrokerDirectory,
        dial: Dial,
        clock: Clock,
        call_soon: CallSoon,
        log_in: LogIn | None = None,
    ) -> None:
        self._log_in = log_in
        self._node_id = node_id
        self._directory = directory
        self._dial = dial
        self._clock = clock
        self._soon = call_soon
        self._channels: dict[tuple[NodeId, Purpose], InterBrokerChannel] = {}
        # Requests of this broker to itself.
        self._own_requests: dict[PendingResponse, None] = {}
        self._is_closed = False
        self.own_service: Service | None = None
        """Serves the requests of this broker to itself."""

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
        deadline_ms = self._clock.steady_ms() + timeout_ms
        asked = InterBrokerRequest(request, deadline_ms, then, on_error)
        if self._is_closed:
            self._fail_soon(asked, ConnectionLost("this broker is stopping"))
        elif node_id == self._node_id:
            self._soon(partial(self._ask_self, asked))
        else:
            self._channel(node_id, purpose).send_request(asked)

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        channel = self._channels.pop((node_id, purpose), None)
        if channel is not None:
            self._soon(channel.close)

    def sweep(self) -> None:
        """Fail requests whose deadline has passed."""
        now_ms = self._clock.steady_ms()
        for channel in [*self._channels.values()]:
            channel.sweep(now_ms)
        late = [each for each in self._own_requests if now_ms >= each.request.deadline_ms]
        for each in late:
            self._own_requests.pop(each, None)
            each.fail(RequestTimedOut("the request of this broker to itself timed out"))

    def close(self) -> None:
        """Close all connections; later requests fail."""
        self._is_closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        own_requests, self._own_requests = self._own_requests, {}
        for each in own_requests:
            each.fail(ConnectionLost("this broker is stopping"))

    def _channel(self, node_id: NodeId, purpose: Purpose) -> InterBrokerChannel:
        channel = self._channels.get((node_id, purpose))
        if channel is None:
            channel = InterBrokerChannel(
                where=partial(self._directory.endpoint, node_id),
                dial=self._dial,
                clock=self._clock,
                call_soon=self._soon,
                client_id=f"broker-{self._node_id}-{purpose.value}",
                log_in=self._log_in,
            )
            self._channels[node_id, purpose] = channel
        return channel

    def _fail_soon(self, asked: InterBrokerRequest, error: HeadwaterError) -> None:
        self._soon(partial(asked.on_error, error))

    def _ask_self(self, asked: InterBrokerRequest) -> None:
        assert self.own_service is not None
        api = APIS[asked.request.api]
        version = api.newest_served(unstable=False)
        frame = bytearray(b"".join(request_frame_of(asked.request, version, 0, INTERNAL_LISTENER)))
        waiting = PendingResponse(asked)
        self._own_requests[waiting] = None
        slot = ResponseSlot(
            InternalConnection(
                ClientAddress(listener=INTERNAL_LISTENER, peer_host="127.0.0.1", peer_port=0),
                Requester(BROKER_PRINCIPAL, "127.0.0.1"),
                answered=lambda response: self._own_answer(waiting, version, response),
                is_disconnected=lambda: self._is_closed,
                cut=lambda: self._own_failure(
                    waiting, ConnectionLost("this broker closed its own request")
                ),
                call_soon=self._soon,
            )
        )
        try:
            self.own_service.serve(slot, memoryview(frame)[_SIZE_BYTES:])
        except HeadwaterError as error:
            self._own_failure(waiting, error)

    def _own_failure(self, waiting: PendingResponse, error: HeadwaterError) -> None:
        self._own_requests.pop(waiting, None)
        waiting.fail(error)

    def _own_answer(self, waiting: PendingResponse, version: int, response: bytes) -> None:
        # The caller must not be re-entered before it has returned.
        self._soon(partial(self._hand_over, waiting, version, response))

    def _hand_over(self, waiting: PendingResponse, version: int, response: bytes) -> None:
        asked = waiting.request
        self._own_requests.pop(waiting, None)
        waiting.answer(read_answer(asked.request, version, memoryview(response)))
