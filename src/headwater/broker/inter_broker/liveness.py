"""Connections that are kept only to notice their end: `headwater.metadata.ports.liveness.Liveness`.

A vigil connects and says nothing. When the connection ends, it knocks again; who could be reached
and now refuses several times in a row has no process any more. What a reader would get wrong: only
a refusal counts, which the other host's own kernel tells. A connection that ends, does not come
about, or finds no name may be the network's fault, and the count begins anew.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from headwater.broker.inter_broker.channel import CONNECT_MS
from headwater.broker.inter_broker.client import BrokerDirectory
from headwater.common.exceptions import ConnectionLost, PeerRefused
from headwater.common.ids import NodeId
from headwater.common.ports import Clock
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata.ports.liveness import LivenessRole

REFUSALS: Final = 3
"""In a row. One alone may be that of a host whose addresses are just being changed."""

KNOCK_MS: Final = 100
LONGEST_REST_MS: Final = 5_000
"""How long to leave one alone that does not refuse, but cannot be held either."""

Later = Callable[[int, Callable[[], None]], object]
Down = Callable[[ConnectionLost], None]


class LivenessConnection(Protocol):
    """What a vigil asks of a connection: `headwater.network.peer.Peer` has it."""

    def sweep(self, now_ms: int) -> None: ...

    def close(self) -> None: ...


LivenessDial = Callable[[BrokerEndpoint, int, Callable[[], None], Down], LivenessConnection]
"""As `headwater.broker.inter_broker.channel.Dial`, of whose connections less is asked here."""


class ConnectionLiveness:
    """See the module. For the loop's thread only; whoever runs it calls `sweep`."""

    def __init__(
        self, *, directory: BrokerDirectory, dial: LivenessDial, clock: Clock, later: Later
    ) -> None:
        self._directory = directory
        self._dial = dial
        self._clock = clock
        self._later = later
        self._kept: dict[_Vigil, None] = {}
        # Who was reached, for each concern in which that has not been used up by a verdict.
        self._reached: dict[tuple[NodeId, LivenessRole], None] = {}

    def keep(
        self, node_id: NodeId, concern: LivenessRole, *, refused: Callable[[], None]
    ) -> "_Vigil":
        def has_died() -> None:
            del self._reached[node_id, concern]
            refused()

        liveness_watch = _Vigil(
            connect=partial(self._connect, node_id),
            later=self._later,
            was_reached=lambda: (node_id, concern) in self._reached,
            refused=has_died,
            ended=self._forget,
        )
        self._kept[liveness_watch] = None
        liveness_watch.knock()
        return liveness_watch

    def sweep(self) -> None:
        """Time has passed: a connection that does not come about is given up."""
        now_ms = self._clock.steady_ms()
        for liveness_watch in list(self._kept):
            liveness_watch.sweep(now_ms)

    def close(self) -> None:
        for liveness_watch in list(self._kept):
            liveness_watch.end()

    def _forget(self, liveness_watch: "_Vigil") -> None:
        self._kept.pop(liveness_watch, None)

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


class _Vigil:
    """One broker's, in one concern, until `end` or its refusal."""

    def __init__(
        self,
        *,
        connect: Callable[[Callable[[], None], Down], LivenessConnection | None],
        later: Later,
        was_reached: Callable[[], bool],
        refused: Callable[[], None],
        ended: Callable[["_Vigil"], None],
    ) -> None:
        self._connect = connect
        self._later = later
        self._was_reached = was_reached
        self._refused = refused
        self._ended = ended
        self._line: LivenessConnection | None = None
        self._is_up = False
        self._refusals = 0
        self._rest_ms = KNOCK_MS
        self._is_over = False

    def knock(self) -> None:
        if self._is_over:
            return
        line: LivenessConnection | None

        def up() -> None:
            if line is self._line:
                self._is_up = True
                self._refusals = 0

        def down(lost: ConnectionLost) -> None:
            if line is self._line and not self._is_over:
                self._lost(lost)

        line = self._line = self._connect(up, down)
        if line is None:
            # It is not known where the broker is; that may come.
            self._rest()

    def sweep(self, now_ms: int) -> None:
        if self._is_up:
            # It holds, so the next end of it is worth a quick look.
            self._rest_ms = KNOCK_MS
        if self._line is not None:
            self._line.sweep(now_ms)

    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        line, self._line = self._line, None
        if line is not None:
            line.close()
        self._ended(self)

    def _lost(self, lost: ConnectionLost) -> None:
        self._line = None
        self._is_up = False
        if not isinstance(lost, PeerRefused):
            self._refusals = 0
            self._rest()
            return
        self._refusals += 1
        if not self._was_reached():
            self._rest()
        elif self._refusals < REFUSALS:
            self._later(KNOCK_MS, self.knock)
        else:
            self.end()
            self._refused()

    def _rest(self) -> None:
        self._later(self._rest_ms, self.knock)
        self._rest_ms = min(2 * self._rest_ms, LONGEST_REST_MS)
