"""Requests of a KRaft broker to the active controller.

Kafka: NodeToControllerChannelManager. The quorum tells which controller is active; there may be
none for a while, and the one that it was may not know yet that it is no longer. The caller decides
about retries.

Implements `InterBrokerClient` for the purpose `TO_CONTROLLER`; all other requests go to brokers.
Heartbeats have a connection of their own, so that no other request delays them.
"""

from collections.abc import Callable
from functools import partial

from headwater.broker.inter_broker.channel import Dial, InterBrokerChannel, LogIn
from headwater.broker.inter_broker.client import CallSoon
from headwater.broker.inter_broker.request import InterBrokerRequest
from headwater.common.exceptions import ConnectionLost, ControllerFenced, HeadwaterError
from headwater.common.ids import NodeId
from headwater.common.ports import Clock
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.ports.inter_broker_client import InterBrokerClient, OnResponse, Purpose
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.older_versions import Message

HEARTBEAT = "heartbeat"
FORWARDING = "forwarding"
DIRECTORY_ASSIGNMENTS = "directory-assignments"


class NodeToControllerChannelManager:
    """Connections to the active controller. The owner calls `sweep`."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        controller: Callable[[], BrokerEndpoint | None],
        dial: Dial,
        clock: Clock,
        call_soon: CallSoon,
        log_in: LogIn | None = None,
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._dial = dial
        self._clock = clock
        self._soon = call_soon
        self._log_in = log_in
        self._channels: dict[tuple[BrokerEndpoint, str], InterBrokerChannel] = {}
        self._is_closed = False

    def send_request(
        self,
        request: Message,
        *,
        timeout_ms: int,
        then: OnResponse,
        on_error: Failed,
        name: str = FORWARDING,
    ) -> None:
        """Send a request once to the controller that is known to be active."""
        endpoint = self._controller()
        if self._is_closed:
            self._fail_soon(on_error, ConnectionLost("this broker is stopping"))
        elif endpoint is None:
            self._fail_soon(on_error, ControllerFenced("no active controller is known"))
        else:
            deadline_ms = self._clock.steady_ms() + timeout_ms
            asked = InterBrokerRequest(request, deadline_ms, then, on_error)
            self._channel(endpoint, name).send_request(asked)

    def controller_changed(self) -> None:
        """Close the connections to former controllers, whose requests fail."""
        endpoint = self._controller()
        for key in [each for each in self._channels if each[0] != endpoint]:
            self._soon(self._channels.pop(key).close)

    def sweep(self) -> None:
        """Fail requests whose deadline has passed."""
        now_ms = self._clock.steady_ms()
        for channel in [*self._channels.values()]:
            channel.sweep(now_ms)

    def close(self) -> None:
        self._is_closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _channel(self, endpoint: BrokerEndpoint, name: str) -> InterBrokerChannel:
        channel = self._channels.get((endpoint, name))
        if channel is None:
            channel = self._channels[endpoint, name] = InterBrokerChannel(
                where=lambda: endpoint,
                dial=self._dial,
                clock=self._clock,
                call_soon=self._soon,
                client_id=f"broker-{self._node_id}-{name}",
                log_in=self._log_in,
            )
        return channel

    def _fail_soon(self, on_error: Failed, error: HeadwaterError) -> None:
        self._soon(partial(on_error, error))


class ControllerAwareClient:
    """`InterBrokerClient` with the active controller for `TO_CONTROLLER` requests."""

    def __init__(
        self, brokers: InterBrokerClient, controller: NodeToControllerChannelManager
    ) -> None:
        self._brokers = brokers
        self._controller = controller

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
        if purpose is Purpose.TO_CONTROLLER:
            self._controller.send_request(
                request,
                timeout_ms=timeout_ms,
                then=then,
                on_error=on_error,
                name=purpose.value,
            )
            return
        self._brokers.send_request(
            node_id, request, purpose=purpose, timeout_ms=timeout_ms, then=then, on_error=on_error
        )

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        self._brokers.drop(node_id, purpose)
