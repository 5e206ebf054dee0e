"""Who has waited long enough for an answer that waits for replicas: `offsets.commit.timeout.ms`.

What a reader would get wrong: nothing is taken back. What was decided is in the log and has been
replayed; the client hears only that it cannot be told yet, and asks again.
"""

from collections import deque
from collections.abc import Callable

from headwater.common.ports import Clock
from headwater.coordinator.runtime.coordinator_effects import Caller
from headwater.replication.purgatory.timer import Timer, WakeupTimer


class AppendTimeouts:
    """All of one shard wait equally long, so the first to come is the first to be late."""

    def __init__(
        self,
        timer: Timer,
        clock: Clock,
        timeout_ms: int | None,
        ring: Callable[[], None],
    ) -> None:
        """`ring` is called when somebody is late; None lets everybody wait for ever."""
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waiting: deque[tuple[int, Caller]] = deque()
        self._alarm = WakeupTimer(timer, ring)

    def add(self, caller: Caller) -> None:
        if self._timeout_ms is None:
            return
        due_ms = self._clock.steady_ms() + self._timeout_ms
        self._waiting.append((due_ms, caller))
        if not self._alarm.is_set:
            self._alarm.set(due_ms)

    def late(self) -> list[Caller]:
        """Those whose time is over. Some of them may have their answer by now."""
        now_ms = self._clock.steady_ms()
        found = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            found.append(self._waiting.popleft()[1])
        if self._waiting and not self._alarm.is_set:
            self._alarm.set(self._waiting[0][0])
        return found

    def clear(self) -> None:
        """Nobody waits any more."""
        self._waiting.clear()
        self._alarm.cancel()
