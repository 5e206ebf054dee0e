"""Send the responses of many connections together, after all of them were served.

Note: this saves no system calls. It saves one scheduled callback per connection, which costs nearly
as much as a small request.
"""

from collections.abc import Callable

from headwater.network.event_loop import Loop


class ResponseBatching:
    """Connections whose responses are pending. Only for the loop's thread."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: list[Callable[[], None]] = []

    def add(self, proceed: Callable[[], None]) -> None:
        """Call `proceed` after the current callbacks of the loop. It must not raise."""
        if not self._waiting:
            self._loop.call_soon(self._leave)
        self._waiting.append(proceed)

    def _leave(self) -> None:
        waiting, self._waiting = self._waiting, []
        for proceed in waiting:
            proceed()
