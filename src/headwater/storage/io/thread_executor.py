"""The executor of a running broker: a few threads for calls that block and free the GIL.

What a reader would get wrong: callbacks never run on a worker's thread. They are handed to `post`,
which is the loop's `call_soon_threadsafe`. A job's mistake (any exception but `StorageError`) is
raised there as well, so that it ends up with the loop's other exceptions and not in silence.

Close the executor before the loop: the outcomes of the last jobs still go through `post`.

Not the standard library's pool: its futures and their locks make thread and loop hand the
interpreter to each other a dozen times per job, which the loop feels when a consumer reads cold
data by thousands of jobs.
"""

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from headwater.common.exceptions import StorageError, TooMuchWork

T = TypeVar("T")

Post = Callable[[Callable[[], None]], object]


class ThreadExecutor:
    """Runs at most `threads` jobs at a time and lets at most `queue_limit` more wait.

    `submit` and `take_no_more` are for the loop's thread only; `close` is for another one if the
    first has been told so before.
    """

    def __init__(
        self,
        threads: int,
        post: Post,
        *,
        queue_limit: int = 10_000,
        name: str = "headwater-work",
    ) -> None:
        self._thread_limit = threads
        self._post = post
        self._limit = threads + queue_limit
        self._name = name
        self._threads: list[threading.Thread] = []
        # A None tells one thread to end.
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._unfinished = 0
        self._is_closed = False

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
        """See `Executor`. Raises `TooMuchWork` when the queue is full, and before the end."""
        if self._is_closed:
            raise TooMuchWork("the executor takes no more work")
        if self._unfinished >= self._limit:
            raise TooMuchWork(f"{self._unfinished} jobs wait for the disk")
        self._unfinished += 1
        self._work.put(partial(self._run, job, then, otherwise))
        if len(self._threads) < min(self._unfinished, self._thread_limit):
            self._start_thread()

    def take_no_more(self) -> None:
        """The end is near. To be said on the loop, before `close` waits elsewhere for it."""
        self._is_closed = True

    def close(self) -> None:
        """Run what was submitted to its end, and wait for it."""
        self._is_closed = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        # A daemon: a process that ends without `close` ends as if killed, instead of never.
        thread = threading.Thread(target=_work_off, args=(self._work,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    # On a worker's thread.

    def _run(
        self,
        job: Callable[[], T],
        then: Callable[[T], None],
        otherwise: Callable[[StorageError], None],
    ) -> None:
        try:
            result = job()
        except StorageError as error:
            self._post(partial(self._finish, otherwise, error))
        except BaseException as mistake:  # noqa: BLE001, it is raised again on the loop
            self._post(partial(self._finish, _raise, mistake))
        else:
            self._post(partial(self._finish, then, result))

    # On the loop.

    def _finish(self, tell: Callable[[T], None], outcome: T) -> None:
        self._unfinished -= 1
        tell(outcome)


def _work_off(work: "SimpleQueue[Callable[[], None] | None]") -> None:
    while (run := work.get()) is not None:
        run()
        # What it holds, the memory of a read among it, is not kept until the next one comes.
        del run


def _raise(mistake: BaseException) -> None:
    raise mistake
