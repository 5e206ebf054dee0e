"""Notice that another broker's process has ended, by a connection that is refused.

Implements `headwater.metadata.ports.liveness.Liveness`. A watch keeps an idle connection to the
broker and reconnects when it closes. A broker that was reachable before and refuses several
connections in a row has no process any more.

Note: only a refusal counts, because the other host's kernel sends it. A closed connection, a
timeout or an unresolved name may be a network failure and resets the count.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from headwater.broker.inter_broker.channel import CONNECT_MS
from headwater.broker.inter_broker.client import BrokerDirectory
from headwater.common.exceptions import ConnectionLost, ConnectionRefused
from headwater.common.ids import NodeId
from headwater.common.ports import Clock
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.ports.liveness import LivenessRole

REFUSALS: Final = 3
"""Consecutive refusals. A single one may come from a host whose addresses are being changed."""

RECONNECT_MS: Final = 100
RECONNECT_MAX_MS: Final = 5_000
"""Longest backoff towards a broker that does not refuse but cannot stay connected."""

CallLater = Callable[[int, Callable[[], None]], object]
Down = Callable[[ConnectionLost], None]


class LivenessConnection(Protocol):
    """What a watch needs of a connection, which is a `headwater.network.peer.Peer`."""

    def sweep(self, now_ms: int) -> None: ...

    def close(self) -> None: ...


LivenessDial = Callable[[BrokerEndpoint, int, Callable[[], None], Down], LivenessConnection]
"""As `headwater.broker.inter_broker.channel.Dial`, for connections that send nothing."""


class ConnectionLiveness:
    """Watches other brokers. Only for the loop's thread; the owner calls `sweep`."""

    def __init__(
        self, *, directory: BrokerDirectory, dial: LivenessDial, clock: Clock, call_later: CallLater
    ) -> None:
        self._directory = directory
        self._dial = dial
        self._clock = clock
        self._later = call_later
        self._watches: dict[_ConnectionWatch, None] = {}
        # Brokers that were reached, by role, since the last time they were reported as ended.
        self._reached: dict[tuple[NodeId, LivenessRole], None] = {}

    def watch(
        self, node_id: NodeId, role: LivenessRole, *, on_refused: Callable[[], None]
    ) -> "_ConnectionWatch":
        def has_died() -> None:
            del self._reached[node_id, role]
            on_refused()

        liveness_watch = _ConnectionWatch(
            connect=partial(self._connect, node_id),
            call_later=self._later,
            was_reached=lambda: (node_id, role) in self._reached,
            on_refused=has_died,
            on_ended=self._forget,
        )
        self._watches[liveness_watch] = None
        liveness_watch.connect()
        return liveness_watch

    def sweep(self) -> None:
        """Give up connection attempts whose deadline has passed."""
        now_ms = self._clock.steady_ms()
        for liveness_watch in list(self._watches):
            liveness_watch.sweep(now_ms)

    def close(self) -> None:
        for liveness_watch in list(self._watches):
            liveness_watch.end()

    def _forget(self, liveness_watch: "_ConnectionWatch") -> None:
        self._watches.pop(liveness_watch, None)

    def _connect(
        self, node_id: NodeId, up: Callable[[], None], down: Down
    ) -> LivenessConnection | None:
        endpoint = self._directory.endpoint(node_id)
        if endpoint is None:
            return None

        def reached() -> None:
            for concern in LivenessRole:
                self._reached[node_id, concern] = None
            up()

        return self._dial(endpoint, self._clock.steady_ms() + CONNECT_MS, reached, down)


class _ConnectionWatch:
    """A watch of one broker in one role, until `end` or until it is refused."""

    def __init__(
        self,
        *,
        connect: Callable[[Callable[[], None], Down], LivenessConnection | None],
        call_later: CallLater,
        was_reached: Callable[[], bool],
        on_refused: Callable[[], None],
        on_ended: Callable[["_ConnectionWatch"], None],
    ) -> None:
        self._connect = connect
        self._later = call_later
        self._was_reached = was_reached
        self._on_refused = on_refused
        self._on_ended = on_ended
        self._connection: LivenessConnection | None = None
        self._is_up = False
        self._refusals = 0
        self._backoff_ms = RECONNECT_MS
        self._is_over = False

    def connect(self) -> None:
        if self._is_over:
            return
        connection: LivenessConnection | None

        def up() -> None:
            if connection is self._connection:
                self._is_up = True
                self._refusals = 0

        def down(lost: ConnectionLost) -> None:
            if connection is self._connection and not self._is_over:
                self._lost(lost)

        connection = self._connection = self._connect(up, down)
        if connection is None:
            # The broker's endpoint is not known yet.
            self._back_off()

    def sweep(self, now_ms: int) -> None:
        if self._is_up:
            # The connection lasted, so its next end is checked quickly.
            self._backoff_ms = RECONNECT_MS
        if self._connection is not None:
            self._connection.sweep(now_ms)

    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._on_ended(self)

    def _lost(self, lost: ConnectionLost) -> None:
        self._connection = None
        self._is_up = False
        if not isinstance(lost, ConnectionRefused):
            self._refusals = 0
            self._back_off()
            return
        self._refusals += 1
        if not self._was_reached():
            self._back_off()
        elif self._refusals < REFUSALS:
            self._later(RECONNECT_MS, self.connect)
        else:
            self.end()
            self._on_refused()

    def _back_off(self) -> None:
        self._later(self._backoff_ms, self.connect)
        self._backoff_ms = min(2 * self._backoff_ms, RECONNECT_MAX_MS)
