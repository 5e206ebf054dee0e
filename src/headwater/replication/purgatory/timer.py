"""Deadlines of delayed operations.

A request that waits is an entry here and at what it waits for (its partitions, for instance), never
a suspended coroutine.

Note: a completed entry stays in the heap, since finding it would need a search; it is skipped when
its deadline comes. When such entries outnumber the live ones, the heap is rebuilt, so its size is
bounded by the number of waiting requests.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Protocol

_SPARE: Final = 64


class TimerTask(Protocol):
    """A request that waits."""

    @property
    def is_done(self) -> bool: ...

    @property
    def is_disconnected(self) -> bool:
        """Whether its client has disconnected."""

    def expire(self) -> None:
        """The deadline passed: answer with what there is."""


class Timer:
    """All delayed operations of a broker by deadline."""

    def __init__(self) -> None:
        self._wake_at: Callable[[int], None] = _ignore
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._numbers = count()
        self._waiting = 0

    def __len__(self) -> int:
        """Number of operations that wait."""
        return self._waiting

    @property
    def next_ms(self) -> int | None:
        """The earliest deadline. The entry may have completed already."""
        return self._heap[0][0] if self._heap else None

    def waiting(self) -> Iterable[TimerTask]:
        """Return the tasks that wait, in no particular order."""
        return dict.fromkeys(task for _, _, task in self._heap if not task.is_done)

    def wake_with(self, wake_at: Callable[[int], None]) -> None:
        """Call `wake_at` with the earliest deadline: now, and whenever it becomes earlier."""
        self._wake_at = wake_at
        if self.next_ms is not None:
            wake_at(self.next_ms)

    def add(self, deadline_ms: int, task: TimerTask) -> None:
        is_earliest = not self._heap or deadline_ms < self._heap[0][0]
        heappush(self._heap, (deadline_ms, next(self._numbers), task))
        self._waiting += 1
        if len(self._heap) > 2 * self._waiting + _SPARE:
            self._heap = [entry for entry in self._heap if not entry[2].is_done]
            heapify(self._heap)
        if is_earliest:
            self._wake_at(deadline_ms)

    def completed(self) -> None:
        """An entry completed, before its deadline or by `expire`."""
        self._waiting -= 1

    def expire(self, now_ms: int) -> None:
        """Expire all entries whose deadline has passed."""
        while self._heap and self._heap[0][0] <= now_ms:
            task = heappop(self._heap)[2]
            if not task.is_done:
                task.expire()

    def expire_disconnected(self) -> None:
        """Expire entries of disconnected clients, which may have chosen long timeouts."""
        for _, _, task in list(self._heap):
            if not task.is_done and task.is_disconnected:
                task.expire()

    def expire_all(self) -> None:
        """Expire all entries: the broker is stopping."""
        waiting, self._heap = sorted(self._heap), []
        for _, _, task in waiting:
            if not task.is_done:
                task.expire()


class WakeupTimer:
    """A callback at a time that can be changed."""

    def __init__(self, timer: Timer, callback: Callable[[], None]) -> None:
        self._timer = timer
        self._callback = callback
        self._entry: _WakeupTask | None = None

    @property
    def is_set(self) -> bool:
        return self._entry is not None

    def set(self, at_ms: int) -> None:
        """Set the time, replacing an earlier one."""
        self.cancel()
        self._entry = _WakeupTask(self._timer, self._fire)
        self._timer.add(at_ms, self._entry)

    def cancel(self) -> None:
        if self._entry is not None:
            self._entry.end()
            self._entry = None

    def _fire(self) -> None:
        self._entry = None
        self._callback()


class _WakeupTask:
    """A `TimerTask` for one wakeup."""

    __slots__ = ("_callback", "_timer", "is_done")

    def __init__(self, timer: Timer, callback: Callable[[], None]) -> None:
        self._timer = timer
        self._callback = callback
        self.is_done = False

    @property
    def is_disconnected(self) -> bool:
        return False

    def end(self) -> None:
        self.is_done = True
        self._timer.completed()

    def expire(self) -> None:
        self.end()
        self._callback()


def _ignore(_: int) -> None:
    """Used until `wake_with` is called."""
