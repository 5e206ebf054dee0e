"""Event loop: the part of it that connections use, and its implementations.

asyncio's own loop and uvloop both work. `Loop` declares only what connections use, so that tests
can replace it with a loop that runs callbacks one by one; streams, transports and tasks are left
out on purpose.
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

_CROWD: Final = 3


class Loop(Protocol):
    """Calls back when a descriptor is ready, or after the current callbacks."""

    def add_reader(self, fd: int, callback: Callback, /) -> object: ...

    def remove_reader(self, fd: int, /) -> bool: ...

    def add_writer(self, fd: int, callback: Callback, /) -> object: ...

    def remove_writer(self, fd: int, /) -> bool: ...

    def call_soon(self, callback: Callback, /) -> object: ...


class _CountingSelector(DefaultSelector):
    """Counts the descriptors that were ready in the last call."""

    ready_count = 0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        found = super().select(timeout)
        self.ready_count = len(found)
        return found


class LoopTurns:
    """Lets other threads work on the loop's state while the loop waits.

    First come, first served: a thread that waits for the loop's current iteration holds the door
    lock, so that the loop cannot begin another iteration first. Threads use `with` only, which
    Ctrl-C cannot leave half done.
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


class _WaitingSelector(_CountingSelector):
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
    """asyncio's loop, which also knows whether many descriptors are ready."""

    def __init__(self, counting: _CountingSelector | None = None) -> None:
        self._counting = _CountingSelector() if counting is None else counting
        super().__init__(self._counting)

    def is_crowded(self) -> bool:
        return self._counting.ready_count > _CROWD


class VisitableLoop(CountingLoop):
    """A loop whose state another thread may read and change between its iterations.

    Note: the other thread must schedule nothing, neither callbacks nor readers and writers, since
    the loop would not wake up for them.
    """

    def __init__(self) -> None:
        self._turns = LoopTurns()
        super().__init__(_WaitingSelector(self._turns))

    def run_forever(self) -> None:
        self._turns.begin()
        try:
            super().run_forever()
        finally:
            self._turns.end()

    def visit(self, work: Callable[[], T]) -> T:
        """Run something short in the caller's thread, between two iterations.

        Not from the loop itself.
        """
        return self._turns.visit(work)


def crowded_check(loop: Loop) -> Callable[[], bool]:
    """Return a function that tells whether many descriptors are ready."""
    return loop.is_crowded if isinstance(loop, CountingLoop) else _never


def _never() -> bool:
    return False


def new_loop(*, is_visited: bool = False) -> asyncio.AbstractEventLoop:
    """Create uvloop's loop if installed, else asyncio's; only that can be visited."""
    if importlib.util.find_spec("uvloop") is None:
        return VisitableLoop() if is_visited else CountingLoop()
    # Imported by name: it is optional, and neither mypy nor the package needs it.
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


def call_soon_from_threads(loop: asyncio.AbstractEventLoop) -> Callable[[Callback], object]:
    """Return a function that schedules callbacks from other threads.

    Raises `RuntimeError` once the loop is closed: end the threads first.
    """
    return loop.call_soon_threadsafe
