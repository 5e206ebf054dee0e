"""Send the requests of `BrokerLifecycleManager` when they are due.

One request is in flight at a time, on a connection of its own. A request that is not answered
within half of `broker.session.timeout.ms` has failed, so that another one fits into the session.
"""

import logging
from collections.abc import Callable

from headwater.broker.broker_server.broker_lifecycle_manager import BrokerLifecycleManager
from headwater.broker.controller_server.raft_manager import Scheduler, TimerHandle
from headwater.broker.inter_broker.node_to_controller_channel_manager import (
    HEARTBEAT,
    NodeToControllerChannelManager,
)
from headwater.common.exceptions import HeadwaterError
from headwater.common.ports import Clock
from headwater.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from headwater.protocol.messages.broker_registration import BrokerRegistrationResponse
from headwater.protocol.older_versions import Message

_log = logging.getLogger(__name__)


class HeartbeatSender:
    """The registration and the heartbeats of one broker process."""

    def __init__(
        self,
        lifecycle: BrokerLifecycleManager,
        *,
        channel: NodeToControllerChannelManager,
        applied_offset: Callable[[], int],
        session_timeout_ms: int,
        clock: Clock,
        loop: Scheduler,
        on_answer: Callable[[], None],
    ) -> None:
        """`applied_offset` is the last offset that the broker's image has."""
        self._lifecycle = lifecycle
        self._channel = channel
        self._applied_offset = applied_offset
        self._session_timeout_ms = session_timeout_ms
        self._clock = clock
        self._loop = loop
        self._on_answer = on_answer
        self._timer: TimerHandle | None = None
        self._is_closed = False
        self.answered_ms = 0
        """When a controller answered last, by the steady clock."""

    def reschedule(self) -> None:
        """Set the timer for the next request, after a change of the lifecycle."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self._lifecycle.due_ms
        if due_ms is not None and not self._is_closed:
            delay_ms = max(0, due_ms - self._clock.steady_ms())
            self._timer = self._loop.call_later(delay_ms / 1_000, self._send)

    def begin_shutdown(self) -> None:
        """Send at once that the broker wants to stop."""
        self.answered_ms = max(self.answered_ms, self._clock.steady_ms())
        self.reschedule()

    def has_lost_controller(self, deadline_ms: int) -> bool:
        """Return whether no answer came for a session, or a deadline has passed."""
        now_ms = self._clock.steady_ms()
        return now_ms >= deadline_ms or now_ms - self.answered_ms >= self._session_timeout_ms

    def close(self) -> None:
        self._is_closed = True
        self.reschedule()

    def _send(self) -> None:
        request = self._lifecycle.next_request(self._clock.steady_ms(), self._applied_offset())
        if request is None:
            self.reschedule()
            return
        self._channel.send_request(
            request,
            timeout_ms=self._session_timeout_ms // 2,
            then=self._answered,
            on_error=self._failed,
            name=HEARTBEAT,
        )

    def _answered(self, response: Message) -> None:
        assert isinstance(response, BrokerHeartbeatResponse | BrokerRegistrationResponse)
        self.answered_ms = self._clock.steady_ms()
        self._lifecycle.handle_response(response, self.answered_ms)
        self._on_answer()
        self.reschedule()

    def _failed(self, error: HeadwaterError) -> None:
        _log.debug("Request to the active controller failed: error=%s", error)
        self._lifecycle.handle_response(None, self._clock.steady_ms())
        self.reschedule()
