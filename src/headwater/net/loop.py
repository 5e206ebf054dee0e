"""The event loop: which one, and the few things that this room asks of it.

asyncio's own loop and uvloop both serve. What a reader would get wrong: `Loop` is not "asyncio
lite". It is all that connections use, so that tests can put a loop in its place which fires its
callbacks one by one; streams, transports and tasks are left out on purpose.
"""

import asyncio
import importlib
import importlib.util
from collections.abc import Callable
from selectors import DefaultSelector, SelectorKey
from typing import Final, Protocol

Callback = Callable[[], None]

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


class CountingLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, which knows whether many wait for their turn."""

    def __init__(self) -> None:
        self._counting = _CountingSelector()
        super().__init__(self._counting)

    def is_crowded(self) -> bool:
        return self._counting.ready_count > _FEW


def crowd_on(loop: Loop) -> Callable[[], bool]:
    """Whether many descriptors are ready in this turn of the loop, as far as it can tell."""
    return loop.is_crowded if isinstance(loop, CountingLoop) else _never


def _never() -> bool:
    return False


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where uvloop is installed, else asyncio's."""
    if importlib.util.find_spec("uvloop") is None:
        return CountingLoop()
    # Imported by name, because it is an extra: neither the checker nor the package needs it.
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


def posting_to(loop: asyncio.AbstractEventLoop) -> Callable[[Callback], object]:
    """The way back onto the loop from another thread.

    Raises `RuntimeError` once the loop is closed: end the threads first.
    """
    return loop.call_soon_threadsafe
