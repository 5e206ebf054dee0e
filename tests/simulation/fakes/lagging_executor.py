"""An executor in virtual time: its jobs take as long as a slow disk.

Note: a job is done at one moment and its callback runs at a later one, and jobs overtake each
other, like those of several threads. Jobs in flight when the process dies were done or not, and
their callbacks never run.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headwater.common.exceptions import StorageError

T = TypeVar("T")


class LaggingExecutor:
    """`headwater.storage.io.executor.Executor`. `most_ms` is the current delay of the disk."""

    def __init__(
        self, rng: random.Random, call_later: Callable[[int, Callable[[], None]], object]
    ) -> None:
        """`later` calls back after some time, unless the process has ended."""
        self.most_ms = 0
        self._rng = rng
        self._later = call_later
        self._jobs: dict[object, Callable[[], Callable[[], None]]] = {}
        self._outcomes: dict[object, Callable[[], None]] = {}

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        on_error: Callable[[StorageError], None],
    ) -> None:
        def run() -> Callable[[], None]:
            try:
                return partial(then, job())
            except StorageError as error:
                return partial(on_error, error)

        key = object()
        self._jobs[key] = run
        self._later(self._delay_ms(), partial(self._work, key))

    def finish(self) -> None:
        """At a clean shutdown: complete everything in flight."""
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
