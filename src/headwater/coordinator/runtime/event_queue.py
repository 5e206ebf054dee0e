"""Run steps one after the other, even if one triggers the next.

Invariant: deferred actions run between two steps, never within one, so they see the complete result
of a step.
"""

from collections import deque
from collections.abc import Callable

Action = Callable[[], None]


class EventQueue:
    """Exceptions end here: both callbacks are called within `except`."""

    def __init__(self, *, step_failed: Action, deferred_failed: Action) -> None:
        self._step_failed = step_failed
        self._deferred_failed = deferred_failed
        self._steps: deque[Action] = deque()
        self._deferred: deque[Action] = deque()
        self._is_busy = False

    def run(self, step: Action) -> None:
        """Run a step now, or after the current and waiting ones."""
        self._steps.append(step)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._steps or self._deferred:
                while self._deferred:
                    self._guarded(self._deferred.popleft(), self._deferred_failed)
                if self._steps:
                    self._guarded(self._steps.popleft(), self._step_failed)
        finally:
            self._is_busy = False

    def defer(self, action: Action) -> None:
        """Run an action after the current step."""
        self._deferred.append(action)

    def _guarded(self, action: Action, failed: Action) -> None:
        try:
            action()
        except Exception:  # noqa: BLE001, a failing step must not stop later ones
            failed()
