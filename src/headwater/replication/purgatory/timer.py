"""Requests that wait, and until when.

A request that waits is an entry here and where its reason is (at the partitions it reads, for
instance), never a suspended coroutine. What a reader would get wrong: an entry that was answered
is not taken out of the heap, which would mean a search; it is passed over when its time comes.
When such entries become the greater part, the heap is made anew, so it stays bounded by the number
of those that really wait.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Protocol

_SPARE: Final = 64


class TimerTask(Protocol):
    """A request that waits."""

    @property
    def is_done(self) -> bool: ...

    @property
    def is_gone(self) -> bool:
        """Whether nobody is there to answer any more."""

    def expire(self) -> None:
        """Its time is over: answer with what there is."""


class Timer:
    """All waiters of a broker by the time at which their patience ends."""

    def __init__(self) -> None:
        self._wake_at: Callable[[int], None] = _nobody
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._numbers = count()
        self._waiting = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    @property
    def next_ms(self) -> int | None:
        """When `expire` has something to do, or a little earlier."""
        return self._heap[0][0] if self._heap else None

    def wake_with(self, wake_at: Callable[[int], None]) -> None:
        """Have it told the earliest deadline: now, and whenever it becomes earlier.

        Now, because no later one would be told while one from before is the earliest.
        """
        self._wake_at = wake_at
        if self.next_ms is not None:
            wake_at(self.next_ms)

    def add(self, deadline_ms: int, waiter: TimerTask) -> None:
        is_earliest = not self._heap or deadline_ms < self._heap[0][0]
        heappush(self._heap, (deadline_ms, next(self._numbers), waiter))
        self._waiting += 1
        if len(self._heap) > 2 * self._waiting + _SPARE:
            self._heap = [entry for entry in self._heap if not entry[2].is_done]
            heapify(self._heap)
        if is_earliest:
            self._wake_at(deadline_ms)

    def ended(self) -> None:
        """A waiter was answered before its time, or `expire` has answered it."""
        self._waiting -= 1

    def expire(self, now_ms: int) -> None:
        """Answer all whose time is over."""
        while self._heap and self._heap[0][0] <= now_ms:
            waiter = heappop(self._heap)[2]
            if not waiter.is_done:
                waiter.expire()

    def expire_gone(self) -> None:
        """End those whose clients have hung up: how long they wait was the client's choice."""
        for _, _, waiter in list(self._heap):
            if not waiter.is_done and waiter.is_gone:
                waiter.expire()

    def expire_all(self) -> None:
        """Nobody waits any longer: the broker stops."""
        waiting, self._heap = sorted(self._heap), []
        for _, _, waiter in waiting:
            if not waiter.is_done:
                waiter.expire()


class WakeupTimer:
    """Something to do at a time that may be moved. It waits among the requests, for nobody."""

    def __init__(self, timer: Timer, ring: Callable[[], None]) -> None:
        self._timer = timer
        self._ring = ring
        self._entry: _AlarmEntry | None = None

    @property
    def is_set(self) -> bool:
        return self._entry is not None

    def set(self, at_ms: int) -> None:
        """Ring then, and not when it was set for before."""
        self.cancel()
        self._entry = _AlarmEntry(self._timer, self._rung)
        self._timer.add(at_ms, self._entry)

    def cancel(self) -> None:
        if self._entry is not None:
            self._entry.end()
            self._entry = None

    def _rung(self) -> None:
        self._entry = None
        self._ring()


class _AlarmEntry:
    """A `TimerTask` for one time."""

    __slots__ = ("_ring", "_timer", "is_done")

    def __init__(self, timer: Timer, ring: Callable[[], None]) -> None:
        self._timer = timer
        self._ring = ring
        self.is_done = False

    @property
    def is_gone(self) -> bool:
        return False

    def end(self) -> None:
        self.is_done = True
        self._timer.ended()

    def expire(self) -> None:
        self.end()
        self._ring()


def _nobody(_: int) -> None:
    """Until somebody has a timer."""
