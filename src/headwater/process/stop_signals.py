"""Handle SIGTERM and Ctrl-C as stop requests while Spark starts and runs.

    with StopSignals() as signals:
        aside(lambda: work(signals))

Note: a signal handler interrupts whatever the main thread does. So the main thread only waits here,
and the work that is asked to stop runs in another thread.
"""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Final, Self, TypeVar

T = TypeVar("T")

_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Stop request, which may arrive before there is anything to stop.

    The first signal requests a graceful stop, the second one ends the process immediately.
    """

    def __init__(self) -> None:
        self.is_stop_requested = False
        self._ask_to_stop: Callable[[], None] | None = None
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in _NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_to(self, request_stop: Callable[[], None]) -> None:
        """Set the function to call on a stop request, at once if there was one.

        The function may be called twice.
        """
        self._ask_to_stop = request_stop
        if self.is_stop_requested:
            request_stop()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        # A second signal ends the process immediately.
        signal.signal(number, signal.SIG_DFL)
        self.is_stop_requested = True
        if self._ask_to_stop is not None:
            self._ask_to_stop()


def aside(work: Callable[[], T]) -> T:
    """Run work that starts and uses Spark in another thread, and wait for it.

    If its context starts in the main thread, PySpark installs its own Ctrl-C handler. And only the
    thread that started a session finds all data sources that were registered with it.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="spark") as executor:
        return executor.submit(work).result()
