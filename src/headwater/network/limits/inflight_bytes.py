"""Bounds on requests in flight, for all connections of a process together.

Three bounds, two of them under Kafka's names, adapted to an event loop:

- `queued.max.request.bytes`: memory of receive buffers that have grown for large frames. As in
  Kafka, a frame is accepted as soon as anything is left, so that the bound can be exceeded by one
  frame, and two half-received frames can never wait for each other.
- `queued.max.requests`: unanswered requests beyond the first of each connection. The first ones
  must not count: a thousand consumers may each have a delayed fetch, and a producer must be served
  all the same.
- `stepwise_bytes`: large requests that are being answered in steps. As objects a request takes 50
  times its bytes, so those of a hundred connections must not be processed at the same time. Small
  requests do not count, and never wait behind large ones.
"""

from dataclasses import dataclass
from typing import Final

from headwater.network.event_loop import Callback, Loop

STEPWISE_BYTES_MAX: Final = 262_144
STEPWISE_SMALL_BYTES: Final = 8_192


class ByteLimit:
    """A bounded amount, with a queue of callbacks that wait while it is full."""

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
        """Whether the limit is reached; never with a negative limit."""
        return 0 <= self._limit <= self.used

    def acquire(self, amount: int) -> None:
        """Take an amount, which may exceed the limit; check `is_full` first."""
        self.used += amount

    def release(self, amount: int) -> None:
        self.used -= amount
        assert self.used >= 0, "released more than was taken"
        # Never at once: a connection would be served in the middle of another one's request.
        if self._waiting and not self._is_waking and not self.is_full:
            self._is_waking = True
            self._loop.call_soon(self._wake)

    def wait(self, callback: Callback) -> None:
        """Call back once there is room again."""
        self._waiting.setdefault(callback)

    def cancel_wait(self, callback: Callback) -> None:
        self._waiting.pop(callback, None)

    def _wake(self) -> None:
        self._is_waking = False
        # A copy, because a callback may close other waiting connections, or wait again.
        for callback in list(self._waiting):
            if self.is_full:
                break
            if callback in self._waiting:
                del self._waiting[callback]
                callback()


@dataclass(frozen=True, slots=True, kw_only=True)
class InflightBytes:
    """The bounds that all connections share."""

    overlapping_requests: ByteLimit
    buffer_bytes: ByteLimit
    stepwise_bytes: ByteLimit
