"""Timers of one coordinator shard.

A shard sets deadlines by the wall clock. They are converted to the steady clock, so that adjusting
the wall clock neither expires all sessions at once nor keeps them forever.

Note: most timers are moved to a later time again and again, by heartbeats. Such a move only changes
the deadline; the entry is added again when it fires too early.
"""

from collections.abc import Callable

from headwater.common.ports import Clock
from headwater.coordinator.runtime.coordinator_effects import TimerKey
from headwater.replication.purgatory.timer import Timer


class _Timer:
    """A `headwater.replication.purgatory.timer.TimerTask`."""

    __slots__ = ("_timers", "due_ms", "is_done", "key")

    def __init__(self, timers: "CoordinatorTimer", key: TimerKey, due_ms: int) -> None:
        self.key = key
        self.due_ms = due_ms
        self.is_done = False
        self._timers = timers

    @property
    def is_disconnected(self) -> bool:
        """Timers belong to the coordinator, not to a client that could disconnect."""
        return False

    def expire(self) -> None:
        self._timers.expired(self)


class CoordinatorTimer:
    """Calls `fire` with the keys of expired timers."""

    def __init__(self, broker_timer: Timer, clock: Clock, fire: Callable[[TimerKey], None]) -> None:
        self._timer = broker_timer
        self._clock = clock
        self._fire = fire
        self._timers: dict[TimerKey, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: TimerKey, deadline_ms: int) -> None:
        """Set a timer by the wall clock, replacing an earlier one with that key."""
        due_ms = self._clock.steady_ms() + max(0, deadline_ms - self._clock.now_ms())
        timer = self._timers.get(key)
        if timer is not None and timer.due_ms <= due_ms:
            timer.due_ms = due_ms
            return
        self.cancel(key)
        self._add(_Timer(self, key, due_ms))

    def cancel(self, key: TimerKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            self._end(timer)

    def clear(self) -> None:
        for key in list(self._timers):
            self.cancel(key)

    def expired(self, timer: _Timer) -> None:
        self._end(timer)
        if timer.due_ms > self._clock.steady_ms():
            self._add(_Timer(self, timer.key, timer.due_ms))
        else:
            del self._timers[timer.key]
            self._fire(timer.key)

    def _add(self, timer: _Timer) -> None:
        self._timers[timer.key] = timer
        self._timer.add(timer.due_ms, timer)

    def _end(self, timer: _Timer) -> None:
        timer.is_done = True
        self._timer.completed()
