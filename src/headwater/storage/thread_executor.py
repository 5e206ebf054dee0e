"""The executor of a running broker: a few threads for calls that block and free the GIL.

What a reader would get wrong: callbacks never run on a worker's thread. They are handed to `post`,
which is the loop's `call_soon_threadsafe`. A job's mistake (any exception but `StorageError`) is
raised there as well, so that it ends up with the loop's other exceptions and not in silence.

Close the executor before the loop: the outcomes of the last jobs still go through `post`.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from headwater.model.failures import StorageError, TooMuchWork

T = TypeVar("T")

Post = Callable[[Callable[[], None]], object]


class ThreadExecutor:
    """Runs at most `threads` jobs at a time and lets at most `queue_limit` more wait.

    `submit` and `close` are for the loop's thread only.
    """

    def __init__(
        self,
        threads: int,
        post: Post,
        *,
        queue_limit: int = 10_000,
        name: str = "headwater-work",
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._post = post
        self._limit = threads + queue_limit
        self._unfinished = 0

    @property
    def unfinished_count(self) -> int:
        """Jobs whose outcome has not reached the loop."""
        return self._unfinished

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        otherwise: Callable[[StorageError], None],
    ) -> None:
        """See `Executor`. Raises `TooMuchWork` when the queue is full."""
        if self._unfinished >= self._limit:
            raise TooMuchWork(f"{self._unfinished} jobs wait for the disk")

        def finish(future: Future[T]) -> None:
            self._unfinished -= 1
            error = future.exception()
            if isinstance(error, StorageError):
                otherwise(error)
            else:
                then(future.result())

        future = self._pool.submit(job)
        self._unfinished += 1
        future.add_done_callback(lambda future: self._hand_over(finish, future))

    def close(self) -> None:
        """Run what was submitted to its end, and wait for it."""
        self._pool.shutdown(wait=True)

    def _hand_over(self, finish: Callable[[Future[T]], None], future: Future[T]) -> None:
        self._post(lambda: finish(future))
