"""Connections of a crowd whose answers leave together, when all of this turn have been served.

What a reader would get wrong: this saves no call of the system. It saves that the loop makes, keeps
and runs something for each of a hundred connections, whose requests take hardly longer.
"""

from collections.abc import Callable

from headwater.network.event_loop import Loop


class ResponseBatching:
    """For the loop's thread only."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: list[Callable[[], None]] = []

    def add(self, proceed: Callable[[], None]) -> None:
        """Call this as soon as the present callbacks have run. It may not raise anything."""
        if not self._waiting:
            self._loop.call_soon(self._leave)
        self._waiting.append(proceed)

    def _leave(self) -> None:
        waiting, self._waiting = self._waiting, []
        for proceed in waiting:
            proceed()
