"""SIGTERM and Ctrl-C, heard while Spark starts and while it works, as a wish to stop.

    with StopSignals() as signals:
        aside(lambda: work(signals))

What a reader would get wrong: a signal's handler runs in the middle of whatever the main thread
does. So the main thread does nothing but wait here, and whoever is asked to stop works in another.
"""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Final, Self, TypeVar

T = TypeVar("T")

_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """A wish to stop, which may come before there is anything to stop.

    The first signal asks for a gentle end, the second one ends the process at once.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._ask_to_stop: Callable[[], None] | None = None
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._hear) for number in _NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_to(self, ask_to_stop: Callable[[], None]) -> None:
        """Who is to be asked, also if the wish came before, and so perhaps twice."""
        self._ask_to_stop = ask_to_stop
        if self.is_asked:
            ask_to_stop()

    def _hear(self, number: int, _: FrameType | None) -> None:
        # Another one of these ends the process at once, as it would any other.
        signal.signal(number, signal.SIG_DFL)
        self.is_asked = True
        if self._ask_to_stop is not None:
            self._ask_to_stop()


def aside(work: Callable[[], T]) -> T:
    """Have Spark started and used in another thread, and wait for it.

    Where its context starts in the main thread, PySpark takes Ctrl-C for itself. And only the
    thread that has started a session finds all formats that were registered with it.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="spark") as executor:
        return executor.submit(work).result()
