"""Work that waits for others, off the loop: one thread for each errand, gone when it is back.

What a reader would get wrong: nothing here bounds how many are under way. Whoever sends one sends
the next when it has come back.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class BackgroundCalls(Protocol):
    """Runs a job elsewhere, then calls back on the loop: a port, so that tests need no threads."""

    def __call__(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        otherwise: Callable[[BaseException], None],
    ) -> None: ...


def run_in_thread(
    job: Callable[[], T],
    *,
    then: Callable[[T], None],
    otherwise: Callable[[BaseException], None],
) -> None:
    """`BackgroundCalls` of the loop that runs. What comes back after its end is dropped."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, thread_name_prefix="headwater-errand")
    purpose = asyncio.get_running_loop().run_in_executor(pool, job)
    pool.shutdown(wait=False)

    def back(done: asyncio.Future[T]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            then(done.result())
        else:
            otherwise(error)

    purpose.add_done_callback(back)
