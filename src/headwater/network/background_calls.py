"""Run blocking calls on a thread and call back on the event loop.

Note: the number of concurrent calls is not bounded here; callers wait for one call before they
start the next.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class BackgroundCalls(Protocol):
    """Runs a job on a thread, then calls back on the loop.

    A protocol, so that tests need no threads.
    """

    def __call__(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        on_error: Callable[[BaseException], None],
    ) -> None: ...


def run_in_thread(
    job: Callable[[], T],
    *,
    then: Callable[[T], None],
    on_error: Callable[[BaseException], None],
) -> None:
    """`BackgroundCalls` for the running loop; drops results after its end."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, thread_name_prefix="headwater-background")
    future = asyncio.get_running_loop().run_in_executor(pool, job)
    pool.shutdown(wait=False)

    def complete(done: asyncio.Future[T]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            then(done.result())
        else:
            on_error(error)

    future.add_done_callback(complete)
