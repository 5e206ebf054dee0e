"""Port for blocking work, so that the simulator can control how it interleaves.

A job runs off the event loop and may touch files only, never a log's state. Its result comes back
on the loop through one of two callbacks, so only one thread ever changes state.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from headwater.common.exceptions import StorageError

T = TypeVar("T")


class Executor(Protocol):
    """Runs a job in the background, then calls back on the event loop."""

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        on_error: Callable[[StorageError], None],
    ) -> None:
        """Run a job, then call back. Raises `QueueFull` if the queue is full."""


class InlineExecutor:
    """Runs every job synchronously in `submit`: for tools, start-up and simple tests."""

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        on_error: Callable[[StorageError], None],
    ) -> None:
        try:
            result = job()
        except StorageError as error:
            on_error(error)
        else:
            then(result)
