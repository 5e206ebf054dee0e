"""What all connections of a process together may have taken in and not yet answered.

Three bounds, two of them under Kafka's names, in the sense that they can have on a loop:

- `queued.max.request.bytes`: memory of receive buffers that have grown for large frames. As in
  Kafka, a frame is let in whole as soon as anything is left, so the bound can be exceeded by one
  frame, and two half-received frames can never wait for each other.
- `queued.max.requests`: unanswered requests beyond the first of each connection. What a reader
  would get wrong: the first ones must not count. A thousand consumers may each have a fetch that
  waits for records, and a producer must be served all the same.
- `stepwise_bytes`: large requests that are being answered in steps. As objects a request takes 50
  times its bytes, so those of a hundred connections must not be worked on at the same time. Small
  requests do not count, and never wait behind large ones.
"""

from dataclasses import dataclass
from typing import Final

from headwater.network.event_loop import Callback, Loop

STEPWISE_BYTES_MAX: Final = 262_144
STEPWISE_SMALL_BYTES: Final = 8_192


class ByteLimit:
    """One account, with a line of those who wait until it is no longer full."""

    def __init__(self, loop: Loop, limit: int) -> None:
        self._loop = loop
        self._limit = limit
        self._waiting: dict[Callback, None] = {}
        self._is_waking = False
        self.used = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Never with a negative limit."""
        return 0 <= self._limit <= self.used

    def take(self, amount: int) -> None:
        """May exceed the limit: whoever is not to do so asks `is_full` first."""
        self.used += amount

    def give_back(self, amount: int) -> None:
        self.used -= amount
        assert self.used >= 0, "more was given back than taken"
        # Never at once: a connection would be served in the middle of another one's request.
        if self._waiting and not self._is_waking and not self.is_full:
            self._is_waking = True
            self._loop.call_soon(self._wake)

    def wait(self, callback: Callback) -> None:
        """Be called once when there is room again."""
        self._waiting.setdefault(callback)

    def forget(self, callback: Callback) -> None:
        self._waiting.pop(callback, None)

    def _wake(self) -> None:
        self._is_waking = False
        # A copy, because a callback may close others that wait, or stand in line again.
        for callback in list(self._waiting):
            if self.is_full:
                break
            if callback in self._waiting:
                del self._waiting[callback]
                callback()


@dataclass(frozen=True, slots=True, kw_only=True)
class InflightBytes:
    """The accounts that all connections share."""

    overlapping_requests: ByteLimit
    buffer_bytes: ByteLimit
    stepwise_bytes: ByteLimit
