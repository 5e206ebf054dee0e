"""Where blocking work goes: a port, so that the simulator can interleave it.

A job runs off the loop and may touch files only, never a log's state. Its outcome comes back on
the loop through one of two callbacks, so state is only ever changed by one thread.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from headwater.common.exceptions import StorageError

T = TypeVar("T")


class Executor(Protocol):
    """Runs a job elsewhere, then calls back on the loop."""

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        otherwise: Callable[[StorageError], None],
    ) -> None:
        """Never runs a callback before the job has ended; raises `TooMuchWork` when it is full."""


class InlineExecutor:
    """Runs every job at once, where it stands: for tools, start-up and simple tests."""

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        otherwise: Callable[[StorageError], None],
    ) -> None:
        try:
            result = job()
        except StorageError as error:
            otherwise(error)
        else:
            then(result)
