"""Share the loop's time fairly among connections.

Start-time fair queuing: each connection has a tag, the virtual time at which the service it has
received so far ends, and the connection with the lowest tag is next. A connection with few requests
is therefore served before busy ones, however many these are, and waits for at most the request that
is being served.

    tag       the later of the connection's own and the virtual time, less `_CREDIT_NS`
    charge    advances the tag by the time used
    virtual   the tag of the connection that is being served

While no connection waits, a ready connection is served at once: the queue costs two clock readings.
A connection waits if others with lower tags do, or if connections have been served at once for
`_AT_ONCE_NS` since the queue last ran; `_run` then serves connections in order of their tags for
`_TURN_NS`, and the loop polls for new requests before it runs again.

An acceptor takes its turns like a connection (`acceptor`). The tag of a new connection is that of
its acceptor, which is charged for accepting it and, when it closes soon, for the time it was
served. Otherwise a client could be first with every request by reconnecting: the virtual time would
stand still while the tags of older connections advance.

Note: time is measured, not requests, since a request may take microseconds or milliseconds. A
request longer than its share is not interrupted; the service splits long ones into steps (see
`headwater.network.request_service`).
"""

from collections.abc import Callable
from heapq import heappop, heappush
from time import perf_counter_ns
from typing import Final, Protocol

from headwater.network.event_loop import Loop

SHARE_NS: Final = 1_000_000
"""After this time a connection with further requests goes back into the queue."""

_TURN_NS: Final = 1_000_000
_AT_ONCE_NS: Final = 5_000_000
# How far the tag of an idle connection may lag: it goes first, but saves up no more.
_CREDIT_NS: Final = 10_000_000
HALF_CREDIT_NS: Final = _CREDIT_NS // 2


class Queued(Protocol):
    """A connection, as the queue needs it."""

    tag_ns: int

    def take_turn(self) -> None:
        """Serve for about `SHARE_NS`."""


class FairQueue:
    """The queue of one server. Only for the loop's thread."""

    __slots__ = (
        "_at_once_ns",
        "_count",
        "_is_scheduled",
        "_loop",
        "_virtual_ns",
        "_waiting",
        "_was_long",
        "now_ns",
    )

    def __init__(self, loop: Loop, now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self.now_ns = now_ns
        self._loop = loop
        self._waiting: list[tuple[int, int, Queued]] = []
        self._count = 0
        self._virtual_ns = 0
        self._at_once_ns = 0
        self._is_scheduled = False
        # Whether the last run took much longer than it should.
        self._was_long = False

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def first_tag_ns(self, listener_tag_ns: int) -> int:
        """The tag of a new connection: after idle connections, before busy ones."""
        return max(listener_tag_ns, self._virtual_ns - HALF_CREDIT_NS)

    def admits(self, queued: Queued) -> bool:
        """Whether it may be served now; otherwise it is queued for `take_turn`."""
        tag_ns = self._virtual_ns - _CREDIT_NS
        if queued.tag_ns > tag_ns:
            tag_ns = queued.tag_ns
        else:
            queued.tag_ns = tag_ns
        waiting = self._waiting
        if self._at_once_ns < _AT_ONCE_NS and (not waiting or tag_ns < waiting[0][0]):
            return True
        self._push(queued)
        return False

    def wait(self, queued: Queued) -> None:
        """Queue a connection for `take_turn`. It must not be queued already."""
        queued.tag_ns = max(queued.tag_ns, self._virtual_ns - _CREDIT_NS)
        self._push(queued)

    def charge(self, queued: Queued, used_ns: int) -> None:
        """Charge a connection for the time it used."""
        # At least 1, or two connections within one tick of the clock would not alternate.
        queued.tag_ns += used_ns or 1
        self._at_once_ns += used_ns
        if not self._waiting:
            # No connection waits, so the time was taken from none.
            if queued.tag_ns > self._virtual_ns:
                self._virtual_ns = queued.tag_ns
            if self._at_once_ns >= _AT_ONCE_NS:
                self._schedule()

    def _push(self, queued: Queued) -> None:
        # Equal tags go in order of arrival.
        self._count += 1
        heappush(self._waiting, (queued.tag_ns, self._count, queued))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            # After a long run other connections may be ready. `call_soon` callbacks run before the
            # loop's next poll of descriptors, so poll once before the next run.
            self._loop.call_soon(self._let_others_go if self._was_long else self._run)

    def _let_others_go(self) -> None:
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        waiting = self._waiting
        now_ns = self.now_ns()
        until_ns = now_ns + _TURN_NS
        try:
            while waiting and now_ns < until_ns:
                tag_ns, _, queued = heappop(waiting)
                self._virtual_ns = max(self._virtual_ns, tag_ns)
                queued.take_turn()
                now_ns = self.now_ns()
        finally:
            # The loop reports what one of them raises, and the others have their turns.
            self._was_long = now_ns - until_ns > _TURN_NS
            self._at_once_ns = 0
            if waiting:
                self._schedule()
