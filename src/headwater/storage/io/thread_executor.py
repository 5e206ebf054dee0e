"""Executor of a running broker: threads for calls that block and release the GIL.

Note: callbacks never run on a worker thread. They are passed to `post`, which is the event loop's
`call_soon_threadsafe`. An exception other than `StorageError` is a bug in the job and is raised
there as well, so that it reaches the loop's exception handler instead of being lost.

Close the executor before the loop: the results of the last jobs still go through `post`.

This is not `ThreadPoolExecutor`: its futures and their locks pass the GIL between worker and loop a
dozen times per job, which is noticeable when a consumer reads cold data in thousands of jobs.
"""

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from headwater.common.exceptions import QueueFull, StorageError

T = TypeVar("T")

Post = Callable[[Callable[[], None]], object]


class ThreadExecutor:
    """Runs at most `threads` jobs at a time and queues at most `queue_limit` more.

    `submit` and `shutdown` are for the event loop's thread only; `close` may run on another
    thread after `shutdown`.
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
        # A None ends one thread.
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._unfinished = 0
        self._is_closed = False

    @property
    def unfinished_count(self) -> int:
        """Number of jobs whose result has not reached the event loop."""
        return self._unfinished

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        on_error: Callable[[StorageError], None],
    ) -> None:
        """Submit a job. Raises `QueueFull` when the queue is full or closing."""
        if self._is_closed:
            raise QueueFull("the executor is shutting down")
        if self._unfinished >= self._limit:
            raise QueueFull(f"{self._unfinished} disk jobs are queued")
        self._unfinished += 1
        self._work.put(partial(self._run, job, then, on_error))
        if len(self._threads) < min(self._unfinished, self._thread_limit):
            self._start_thread()

    def shutdown(self) -> None:
        """Refuse further jobs. Called on the loop before `close` waits on a thread."""
        self._is_closed = True

    def close(self) -> None:
        """Wait until all submitted jobs have run."""
        self._is_closed = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        # A daemon thread, so that a process that exits without `close` does not hang.
        thread = threading.Thread(target=_run_jobs, args=(self._work,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    # On a worker thread.

    def _run(
        self,
        job: Callable[[], T],
        then: Callable[[T], None],
        on_error: Callable[[StorageError], None],
    ) -> None:
        try:
            result = job()
        except StorageError as error:
            self._post(partial(self._finish, on_error, error))
        except BaseException as error:  # noqa: BLE001, it is raised again on the loop
            self._post(partial(self._finish, _raise, error))
        else:
            self._post(partial(self._finish, then, result))

    # On the event loop.

    def _finish(self, callback: Callable[[T], None], outcome: T) -> None:
        self._unfinished -= 1
        callback(outcome)


def _run_jobs(work: "SimpleQueue[Callable[[], None] | None]") -> None:
    while (run := work.get()) is not None:
        run()
        # Drop the job's references, such as the memory of a read, before waiting for the next one.
        del run


def _raise(error: BaseException) -> None:
    raise error
