"""An executor that holds jobs back until it is told to run them, in any order.

What a reader would get wrong: a job and its callback are two steps. The job touches the disk when
`work` runs it; the loop hears of it when `deliver` calls back. Between the two, a test may do
anything else on the loop, or crash.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headwater.common.exceptions import StorageError, TooMuchWork

T = TypeVar("T")


class HeldExecutor:
    """Runs nothing by itself. The dice choose among the jobs that wait.

    While `is_full` is set, it takes no further job, as a pool whose queue has reached its limit.
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
        otherwise: Callable[[StorageError], None],
    ) -> None:
        if self.is_full:
            raise TooMuchWork("the test says so")

        def run() -> Callable[[], None]:
            try:
                return partial(then, job())
            except StorageError as error:
                return partial(otherwise, error)

        self._jobs.append(run)

    def work(self) -> bool:
        """Run any one job, keeping its outcome back; False when there was none."""
        if not self._jobs:
            return False
        job = self._jobs.pop(self._rng.randrange(len(self._jobs)))
        self._outcomes.append(job())
        return True

    def deliver(self) -> bool:
        """Call back for any one job that has run; False when there was none."""
        if not self._outcomes:
            return False
        self._outcomes.pop(self._rng.randrange(len(self._outcomes)))()
        return True

    def step(self) -> bool:
        """Either of the two, as the dice say; False when nothing waits."""
        if self._jobs and (not self._outcomes or self._rng.random() < 0.5):
            return self.work()
        return self.deliver()

    def finish(self) -> None:
        """Run and deliver until nothing waits, what the callbacks submit included."""
        while self.step():
            pass

    def crash(self) -> None:
        """The process died: nothing that waits will ever happen."""
        self._jobs.clear()
        self._outcomes.clear()
