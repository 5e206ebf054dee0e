"""Steps one after the other, also where one brings about the next: the loop of a shell.

What a reader would get wrong: what shall leave does so between two steps and never within one, so
whoever hears it finds everything as the step has left it.
"""

from collections import deque
from collections.abc import Callable

Action = Callable[[], None]


class EventTurns:
    """See the module. Our own faults end here: both callbacks are called within `except`."""

    def __init__(self, *, step_failed: Action, departure_failed: Action) -> None:
        self._step_failed = step_failed
        self._departure_failed = departure_failed
        self._steps: deque[Action] = deque()
        self._leaving: deque[Action] = deque()
        self._is_busy = False

    def run(self, step: Action) -> None:
        """Now, or after the present step and those that wait."""
        self._steps.append(step)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._steps or self._leaving:
                while self._leaving:
                    self._guarded(self._leaving.popleft(), self._departure_failed)
                if self._steps:
                    self._guarded(self._steps.popleft(), self._step_failed)
        finally:
            self._is_busy = False

    def let_go(self, action: Action) -> None:
        """Once the present step is done."""
        self._leaving.append(action)

    def _guarded(self, action: Action, failed: Action) -> None:
        try:
            action()
        except Exception:  # noqa: BLE001, a step that trips must not stop those that follow
            failed()
