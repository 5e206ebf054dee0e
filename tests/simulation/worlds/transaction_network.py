"""Virtual time and a lossy network for the transactions simulator.

Note: not every message may come late. In transaction version 1 an end, a marker or an addition that
is delivered after its sender gave it up ends or joins the *next* transaction, which has the same
epoch. Kafka accepts that, and version 2 was made to close it. So a version 1 client gets a network
that loses and duplicates, but delivers before the sender's timeout or not at all; version 2 gets
one that may deliver a copy seconds later.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")

REQUEST_TIMEOUT_MS = 400
_QUICK_MS = 60
_LATE_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities of faults."""

    lost: float = 0.04
    doubled: float = 0.08
    slow: float = 0.05


CALM = Faults(lost=0, doubled=0, slow=0)


@dataclass(slots=True)
class World:
    """One thread, one clock, one random source."""

    seed: int
    now_ms: int = 1_000_000
    faults: Faults = field(default_factory=Faults)
    trace: list[str] = field(default_factory=list)
    rng: random.Random = field(init=False)
    _queue: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _scheduled: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def say(self, what: str) -> None:
        self.trace.append(f"{self.now_ms - 1_000_000:7} {what}")

    def after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._scheduled, act))

    def run(self, until_ms: int) -> None:
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, act = heapq.heappop(self._queue)
            act()
        self.now_ms = until_ms

    def happens(self, chance: float) -> bool:
        return self.rng.random() < chance


@dataclass(slots=True)
class Call(Generic[Q, A]):
    """A request in flight: answered once, or with None at its timeout."""

    world: World
    done: Callable[[A | None], None]
    is_over: bool = False

    def answer(self, answer: A) -> None:
        """Sent by the server; it may be lost."""
        if self.world.happens(self.world.faults.lost):
            return
        self.world.after(self.world.rng.randint(1, _QUICK_MS), lambda: self.finish(answer))

    def finish(self, answer: A | None) -> None:
        if not self.is_over:
            self.is_over = True
            self.done(answer)


def send(
    world: World,
    serve: Callable[[Q, Callable[[A], None]], None],
    request: Q,
    done: Callable[[A | None], None],
    *,
    may_be_late: bool,
) -> None:
    """Send a request. `done` gets the response or, after a while, None."""
    call: Call[Q, A] = Call(world, done)
    faults, rng = world.faults, world.rng

    def deliver() -> None:
        serve(request, call.answer)

    delay_ms = rng.randint(1, _QUICK_MS)
    if may_be_late and world.happens(faults.slow):
        delay_ms = rng.randint(1, _LATE_MS)
    if not world.happens(faults.lost):
        world.after(delay_ms, deliver)
        if world.happens(faults.doubled):
            world.after(rng.randint(1, _LATE_MS) if may_be_late else delay_ms, deliver)
    world.after(REQUEST_TIMEOUT_MS, lambda: call.finish(None))
