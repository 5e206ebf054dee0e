"""A process that does not run for a while: stopped by a signal, or blocked by its disk.

Note: nothing is lost. What arrives meanwhile, timers included, waits and is then processed at once,
in order, by a process that does not know how much time has passed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stall:
    """Everything that a process receives goes through `pass_on`."""

    is_on: bool = False
    _missed: deque[Callable[[], None]] = field(default_factory=deque)

    def pass_on(self, action: Callable[[], None]) -> None:
        if self.is_on or self._missed:
            self._missed.append(action)
        else:
            action()

    def begin(self) -> None:
        self.is_on = True

    def end(self) -> None:
        self.is_on = False
        while self._missed and not self.is_on:
            # It stays in the queue until it is done: what it causes comes behind the rest.
            self._missed[0]()
            if self._missed:
                self._missed.popleft()

    def forget(self) -> None:
        """The process ended; drop everything."""
        self.is_on = False
        self._missed.clear()
