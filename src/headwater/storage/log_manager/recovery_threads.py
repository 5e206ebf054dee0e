"""Recovery pool of a running broker: threads for each log directory."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from headwater.storage.log_manager.recovery_pool import Loads

T = TypeVar("T")


class RecoveryThreads:
    """Threads that begin to load at once, `threads_per_directory` for each directory.

    Results wait until they are taken: they are the logs that stay in memory anyway.
    """

    is_concurrent = True

    def __init__(self, threads_per_directory: int) -> None:
        self._threads = threads_per_directory

    def begin(self, loads: Sequence[Callable[[], T]]) -> Loads[T]:
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="headwater-recovery")
        return _ThreadedLoads(pool, deque(pool.submit(load) for load in loads))


class _ThreadedLoads(Generic[T]):
    def __init__(self, pool: ThreadPoolExecutor, futures: deque[Future[T]]) -> None:
        self._pool = pool
        self._futures = futures

    def take(self) -> T:
        return self._futures.popleft().result()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
