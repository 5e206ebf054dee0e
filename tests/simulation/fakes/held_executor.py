"""An executor that holds jobs back until the test runs them, in any order.

Note: a job and its callback are two steps. The job touches the disk when `work` runs it; the
callback runs with `deliver`. Between the two, a test may do anything else on the loop, or crash.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headwater.common.exceptions import QueueFull, StorageError

T = TypeVar("T")


class HeldExecutor:
    """Runs nothing by itself. The random source chooses among waiting jobs.

    While `is_full` is set, it takes no further job, like a pool whose queue is full.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.is_full = False
        self._jobs: list[Callable[[], Callable[[], None]]] = []
        self._outcomes: list[Callable[[], None]] = []

    @property
    def waiting_count(self) -> int:
        """Jobs that have not run, and outcomes that have not been delivered."""
        return len(self._jobs) + len(self._outcomes)

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        on_error: Callable[[StorageError], None],
    ) -> None:
        if self.is_full:
            raise QueueFull("the test says so")

        def run() -> Callable[[], None]:
            try:
                return partial(then, job())
            except StorageError as error:
                return partial(on_error, error)

        self._jobs.append(run)

    def work(self) -> bool:
        """Run any one job and keep its outcome; False if there is none."""
        if not self._jobs:
            return False
        job = self._jobs.pop(self._rng.randrange(len(self._jobs)))
        self._outcomes.append(job())
        return True

    def deliver(self) -> bool:
        """Call back for any one finished job; False if there is none."""
        if not self._outcomes:
            return False
        self._outcomes.pop(self._rng.randrange(len(self._outcomes)))()
        return True

    def step(self) -> bool:
        """Either of the two, at random; False if nothing waits."""
        if self._jobs and (not self._outcomes or self._rng.random() < 0.5):
            return self.work()
        return self.deliver()

    def finish(self) -> None:
        """Run and deliver until nothing waits, including what the callbacks submit."""
        while self.step():
            pass

    def crash(self) -> None:
        """The process died: drop everything."""
        self._jobs.clear()
        self._outcomes.clear()
