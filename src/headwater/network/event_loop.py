"""The event loop: which one, and the few things that this room asks of it.

asyncio's own loop and uvloop both serve. What a reader would get wrong: `Loop` is not "asyncio
lite". It is all that connections use, so that tests can put a loop in its place which fires its
callbacks one by one; streams, transports and tasks are left out on purpose.
"""

import asyncio
import importlib
import importlib.util
import threading
from collections.abc import Callable
from selectors import DefaultSelector, SelectorKey
from typing import Final, Protocol, TypeVar

Callback = Callable[[], None]
T = TypeVar("T")

_FEW: Final = 3


class Loop(Protocol):
    """Calls back when a descriptor is ready, or as soon as the present callbacks have run."""

    def add_reader(self, fd: int, callback: Callback, /) -> object: ...

    def remove_reader(self, fd: int, /) -> bool: ...

    def add_writer(self, fd: int, callback: Callback, /) -> object: ...

    def remove_writer(self, fd: int, /) -> bool: ...

    def call_soon(self, callback: Callback, /) -> object: ...


class _CountingSelector(DefaultSelector):
    """Knows how many descriptors were ready when it was last asked."""

    ready_count = 0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        found = super().select(timeout)
        self.ready_count = len(found)
        return found


class LoopTurns:
    """Whose turn it is: the loop's, except while it waits, when visitors may have theirs.

    Whoever comes first is next: a visitor who waits for the end of the loop's turn keeps the door,
    and the loop cannot begin another turn before it. Visitors use `with` and nothing else, which no
    Ctrl-C can leave halfway.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._turn = threading.Lock()

    def begin(self) -> None:
        with self._door:
            self._turn.acquire()

    def end(self) -> None:
        self._turn.release()

    def visit(self, work: Callable[[], T]) -> T:
        with self._door, self._turn:
            return work()


class _RestingSelector(_CountingSelector):
    """Ends the loop's turn while it waits."""

    def __init__(self, turns: LoopTurns) -> None:
        super().__init__()
        self._turns = turns

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self._turns.end()
        try:
            return super().select(timeout)
        finally:
            self._turns.begin()


class CountingLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, which knows whether many wait for their turn."""

    def __init__(self, counting: _CountingSelector | None = None) -> None:
        self._counting = _CountingSelector() if counting is None else counting
        super().__init__(self._counting)

    def is_crowded(self) -> bool:
        return self._counting.ready_count > _FEW


class VisitableLoop(CountingLoop):
    """A loop whose state another thread may look at and change between its turns.

    What a reader would get wrong: a visitor must schedule nothing, neither callbacks nor watches
    on descriptors, since nobody would wake the loop for them.
    """

    def __init__(self) -> None:
        self._turns = LoopTurns()
        super().__init__(_RestingSelector(self._turns))

    def run_forever(self) -> None:
        self._turns.begin()
        try:
            super().run_forever()
        finally:
            self._turns.end()

    def visit(self, work: Callable[[], T]) -> T:
        """Do something short in the caller's thread, between two turns. Not from within a turn."""
        return self._turns.visit(work)


def crowd_on(loop: Loop) -> Callable[[], bool]:
    """Whether many descriptors are ready in this turn of the loop, as far as it can tell."""
    return loop.is_crowded if isinstance(loop, CountingLoop) else _never


def _never() -> bool:
    return False


def new_loop(*, is_visited: bool = False) -> asyncio.AbstractEventLoop:
    """uvloop's loop where uvloop is installed, else asyncio's; that one can be visited."""
    if importlib.util.find_spec("uvloop") is None:
        return VisitableLoop() if is_visited else CountingLoop()
    # Imported by name, because it is an extra: neither the checker nor the package needs it.
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


def posting_to(loop: asyncio.AbstractEventLoop) -> Callable[[Callback], object]:
    """The way back onto the loop from another thread.

    Raises `RuntimeError` once the loop is closed: end the threads first.
    """
    return loop.call_soon_threadsafe
