"""An executor in virtual time: its jobs take as long as a slow disk lets them.

What a reader would get wrong: a job is done at one moment and heard of at a later one, and jobs
overtake each other, as those of several threads do. What is under way when the process dies was
done or not, and nobody hears of it.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headwater.common.exceptions import StorageError

T = TypeVar("T")


class LaggingExecutor:
    """`headwater.storage.io.executor.Executor`. `most_ms` is how slow the disk is now."""

    def __init__(
        self, rng: random.Random, later: Callable[[int, Callable[[], None]], object]
    ) -> None:
        """`later` does something after some time, unless the process is gone by then."""
        self.most_ms = 0
        self._rng = rng
        self._later = later
        self._jobs: dict[object, Callable[[], Callable[[], None]]] = {}
        self._outcomes: dict[object, Callable[[], None]] = {}

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        otherwise: Callable[[StorageError], None],
    ) -> None:
        def run() -> Callable[[], None]:
            try:
                return partial(then, job())
            except StorageError as error:
                return partial(otherwise, error)

        key = object()
        self._jobs[key] = run
        self._later(self._delay_ms(), partial(self._work, key))

    def finish(self) -> None:
        """At a clean end: whatever is under way is done, and heard of."""
        while self._jobs or self._outcomes:
            for key in list(self._jobs):
                self._outcomes[key] = self._jobs.pop(key)()
            for key in list(self._outcomes):
                self._deliver(key)

    def _work(self, key: object) -> None:
        job = self._jobs.pop(key, None)
        if job is not None:
            self._outcomes[key] = job()
            self._later(self._delay_ms(), partial(self._deliver, key))

    def _deliver(self, key: object) -> None:
        outcome = self._outcomes.pop(key, None)
        if outcome is not None:
            outcome()

    def _delay_ms(self) -> int:
        return self._rng.randint(0, self.most_ms)
