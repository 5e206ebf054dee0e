"""Timeouts of responses that wait for replication: `offsets.commit.timeout.ms`.

Note: nothing is undone. The records are in the log and have been replayed; the client gets
REQUEST_TIMED_OUT and retries.
"""

from collections import deque
from collections.abc import Callable

from headwater.common.ports import Clock
from headwater.coordinator.runtime.coordinator_effects import Caller
from headwater.replication.purgatory.timer import Timer, WakeupTimer


class AppendTimeouts:
    """The responses of one shard; with one timeout, the oldest expires first."""

    def __init__(
        self,
        timer: Timer,
        clock: Clock,
        timeout_ms: int | None,
        on_timeout: Callable[[], None],
    ) -> None:
        """Call `on_timeout` when a response times out; a timeout of None disables it."""
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waiting: deque[tuple[int, Caller]] = deque()
        self._wakeup = WakeupTimer(timer, on_timeout)

    def add(self, caller: Caller) -> None:
        if self._timeout_ms is None:
            return
        due_ms = self._clock.steady_ms() + self._timeout_ms
        self._waiting.append((due_ms, caller))
        if not self._wakeup.is_set:
            self._wakeup.set(due_ms)

    def expired(self) -> list[Caller]:
        """Return the callers that timed out. Some may have been answered already."""
        now_ms = self._clock.steady_ms()
        found = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            found.append(self._waiting.popleft()[1])
        if self._waiting and not self._wakeup.is_set:
            self._wakeup.set(self._waiting[0][0])
        return found

    def clear(self) -> None:
        self._waiting.clear()
        self._wakeup.cancel()
