"""Share the loop's time fairly among connections.

Start-time fair queuing: each connection carries a tag, the virtual time at which what it has been
served so far ends, and the connection with the lowest tag is next. A connection that asks for
little is therefore served before those that keep asking, however many these are, and waits for at
most the request that is being served.

    tag       the later of the connection's own and the virtual time, less `_CREDIT_NS`
    charge    moves the tag ahead by the time that was used
    virtual   the tag of the connection that is being served

While no connection waits, one that has something to do is served at once: the queue costs two
readings of the clock. A connection waits if others with lower tags do, or if connections have been
served at once for `_AT_ONCE_NS` since the queue had its last turn; `_run` then serves in order of
the tags for `_TURN_NS`, and the loop looks for new requests before the next turn.

A listener takes its turns like a connection (`acceptor`). The tag of a new connection is that of
its listener, which is charged for accepting it and, when it ends soon, for what it was served. Else
a client could be first with every request by connecting again for it: the virtual time would stand
still while the tags of older connections move on.

Note: time is measured and not counted in requests, since a request may take microseconds or
milliseconds. A request longer than its share is not interrupted; the service cuts long ones into
steps (see `headwater.network.request_service`).
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
# How far the tag of an idle connection may lie behind: it goes first, but saves up no more.
_CREDIT_NS: Final = 10_000_000
HALF_CREDIT_NS: Final = _CREDIT_NS // 2


class Queued(Protocol):
    """A connection as the queue sees it."""

    tag_ns: int

    def take_turn(self) -> None:
        """Serve for about `SHARE_NS`."""


class FairQueue:
    """For the loop's thread only."""

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
        # Whether the last turn took much longer than it should.
        self._was_long = False

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def first_tag_ns(self, listener_tag_ns: int) -> int:
        """The tag of a new connection: after those that were idle, before those that are busy."""
        return max(listener_tag_ns, self._virtual_ns - HALF_CREDIT_NS)

    def admits(self, queued: Queued) -> bool:
        """Whether it may be served at once; else it waits, and `take_turn` is called later."""
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
        """Call `take_turn` when it is its turn. Not for one that waits already."""
        queued.tag_ns = max(queued.tag_ns, self._virtual_ns - _CREDIT_NS)
        self._push(queued)

    def charge(self, queued: Queued, used_ns: int) -> None:
        """Note that a connection was served for so long."""
        # Never nothing, or two that take turns within one tick of the clock would not take turns.
        queued.tag_ns += used_ns or 1
        self._at_once_ns += used_ns
        if not self._waiting:
            # Nobody waits, so what it used was taken from nobody.
            if queued.tag_ns > self._virtual_ns:
                self._virtual_ns = queued.tag_ns
            if self._at_once_ns >= _AT_ONCE_NS:
                self._schedule()

    def _push(self, queued: Queued) -> None:
        # Equal tags go in the order in which they came.
        self._count += 1
        heappush(self._waiting, (queued.tag_ns, self._count, queued))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            # After a long turn others may have come. What is to be called soon is called before
            # what the loop finds in its next look at descriptors, so it takes another look first.
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
