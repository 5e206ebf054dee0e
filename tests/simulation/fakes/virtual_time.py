"""A clock that jumps from event to event, and a network that loses, repeats and delays.

Events happen in order of time, and at the same time in order of scheduling, so one seed always
gives one run.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.protocol.older_versions import Message

Answer = Callable[[Message | None], None]
"""None: no response arrived, and a late one is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Probabilities of faults, each from 0 to 1."""

    loss: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    failed_write: float = 0.0
    slowness: float = 0.0


CALM = Weather()
STORM = Weather(loss=0.02, repeat=0.04, delay=0.03, failed_write=0.02, slowness=0.08)


@dataclass(slots=True)
class VirtualTime:
    rand: random.Random
    now_ms: int = 1_000_000
    weather: Weather = CALM
    trace: list[str] = field(default_factory=list)
    _queue: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0
    event_count: int = 0
    """Number of events so far."""

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._count, action))

    def run_for(self, span_ms: int) -> None:
        end_ms = self.now_ms + span_ms
        while self._queue and self._queue[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self._queue)
            self.event_count += 1
            action()
        self.now_ms = end_ms

    def happens(self, chance: float) -> bool:
        """Draws even if the probability is 0, so that weather changes no other outcome."""
        return self.rand.random() < chance

    def say(self, text: str) -> None:
        self.trace.append(f"{self.now_ms / 1000:10.3f} {text}")

    def travel(self, deliver: Callable[[], None]) -> None:
        """One way through the network: lost, late or in time."""
        delay_ms = self.rand.randint(1, 20)
        if self.happens(self.weather.delay):
            delay_ms += self.rand.randint(500, 30_000)
        if not self.happens(self.weather.loss):
            self.after(delay_ms, deliver)


@dataclass(slots=True)
class Call:
    """A request and the one response that its sender accepts."""

    time: VirtualTime
    answer: Answer
    is_over: bool = False

    def complete(self, response: Message | None) -> None:
        if not self.is_over:
            self.is_over = True
            self.answer(response)

    def respond(self, response: Message | None) -> None:
        """Respond, from the other side."""
        self.time.travel(lambda: self.complete(response))
