"""Connections that are kept only to notice their end: `headwater.cluster.vigils.Vigils`.

A vigil connects and says nothing. When the connection ends, it knocks again; who could be reached
and now refuses several times in a row has no process any more. What a reader would get wrong: only
a refusal counts, which the other host's own kernel tells. A connection that ends, does not come
about, or finds no name may be the network's fault, and the count begins anew.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from headwater.broker.colleague_link import CONNECT_MS
from headwater.broker.colleagues import Directory
from headwater.cluster.image import Endpoint
from headwater.cluster.vigils import Concern
from headwater.model.failures import ConnectionLost, PeerRefused
from headwater.model.ids import NodeId
from headwater.model.ports import Clock

REFUSALS: Final = 3
"""In a row. One alone may be that of a host whose addresses are just being changed."""

KNOCK_MS: Final = 100
LONGEST_REST_MS: Final = 5_000
"""How long to leave one alone that does not refuse, but cannot be held either."""

Later = Callable[[int, Callable[[], None]], object]
Down = Callable[[ConnectionLost], None]


class HeldLine(Protocol):
    """What a vigil asks of a connection: `headwater.net.peer.Peer` has it."""

    def sweep(self, now_ms: int) -> None: ...

    def close(self) -> None: ...


HeldDial = Callable[[Endpoint, int, Callable[[], None], Down], HeldLine]
"""As `headwater.broker.colleague_link.Dial`, of whose connections less is asked here."""


class BrokerVigils:
    """See the module. For the loop's thread only; whoever runs it calls `sweep`."""

    def __init__(self, *, directory: Directory, dial: HeldDial, clock: Clock, later: Later) -> None:
        self._directory = directory
        self._dial = dial
        self._clock = clock
        self._later = later
        self._kept: dict[_Vigil, None] = {}
        # Who was reached, for each concern in which that has not been used up by a verdict.
        self._reached: dict[tuple[NodeId, Concern], None] = {}

    def keep(self, node_id: NodeId, concern: Concern, *, refused: Callable[[], None]) -> "_Vigil":
        def has_died() -> None:
            del self._reached[node_id, concern]
            refused()

        vigil = _Vigil(
            connect=partial(self._connect, node_id),
            later=self._later,
            was_reached=lambda: (node_id, concern) in self._reached,
            refused=has_died,
            ended=self._forget,
        )
        self._kept[vigil] = None
        vigil.knock()
        return vigil

    def sweep(self) -> None:
        """Time has passed: a connection that does not come about is given up."""
        now_ms = self._clock.steady_ms()
        for vigil in list(self._kept):
            vigil.sweep(now_ms)

    def close(self) -> None:
        for vigil in list(self._kept):
            vigil.end()

    def _forget(self, vigil: "_Vigil") -> None:
        self._kept.pop(vigil, None)

    def _connect(self, node_id: NodeId, up: Callable[[], None], down: Down) -> HeldLine | None:
        endpoint = self._directory.endpoint(node_id)
        if endpoint is None:
            return None

        def reached() -> None:
            for concern in Concern:
                self._reached[node_id, concern] = None
            up()

        return self._dial(endpoint, self._clock.steady_ms() + CONNECT_MS, reached, down)


class _Vigil:
    """One broker's, in one concern, until `end` or its refusal."""

    def __init__(
        self,
        *,
        connect: Callable[[Callable[[], None], Down], HeldLine | None],
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
        self._line: HeldLine | None = None
        self._is_up = False
        self._refusals = 0
        self._rest_ms = KNOCK_MS
        self._is_over = False

    def knock(self) -> None:
        if self._is_over:
            return
        line: HeldLine | None

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
