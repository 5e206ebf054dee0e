"""The background thread of a blocking client: a daemon with an asyncio loop.

There are three ways to use it. `run` executes a coroutine and waits for its result, for calls that
wait for the cluster anyway. A `Wakeup` schedules one function per burst: callers share one wake-up,
so that a record costs no system call. `visit` executes something short in the caller's thread while
the loop is idle, which is cheaper than switching threads twice.

Note: threads do not survive a fork. In a forked child the calls raise `ClientClosed` instead of
hanging. Create a client in the process that uses it.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, TypeVar

from headwater.client.errors import ClientClosed, KafkaTimeout
from headwater.network.event_loop import VisitableLoop, new_loop

T = TypeVar("T")
_STOP_S: Final = 5.0


class LoopThread:
    """A running loop in a thread. Thread-safe."""

    def __init__(self, name: str) -> None:
        self.loop = new_loop(is_visited=True)
        # Held while work is submitted and at the end, so that no work is lost after the end.
        # Reentrant: a signal handler may submit while the thread it interrupts is submitting.
        self._door = threading.RLock()
        self._is_over = False
        self._visitor: threading.Thread | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the caller is the loop's thread or visits it, and must not wait."""
        return threading.current_thread() in (self._thread, self._visitor)

    @property
    def is_running(self) -> bool:
        """Whether the thread is alive; False after `stop` and in a forked child."""
        return self._thread.is_alive()

    def check_not_here(self) -> None:
        """Raise `ClientClosed` if waiting would never end."""
        if self.is_here or not self._thread.is_alive():
            self._refuse()

    def run(self, work: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for it.

        The coroutine should have its own deadline. After `timeout_s`, a safety net, it is
        cancelled and `KafkaTimeout` raised.
        """
        if self.is_here or not self._thread.is_alive():
            work.close()
            self._refuse()
        with self._door:
            if self._is_over:
                work.close()
                raise ClientClosed("the client is closed")
            future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        except CancelledError:
            # The loop was stopped while the work was running.
            raise ClientClosed("the client was closed during the call") from None
        except FutureTimeout as error:
            if future.done():
                # Raised by the coroutine: KafkaTimeout is a TimeoutError, too.
                raise
            future.cancel()
            raise KafkaTimeout(f"not done within {timeout_s} s") from error
        except BaseException:
            # Ctrl-C in the waiting thread must cancel the work.
            future.cancel()
            raise

    def visit(self, work: Callable[[], T]) -> T | None:
        """Run something short in the caller's thread, between two iterations of the loop.

        Needs no thread switch, but must not schedule anything on the loop. Returns None if the
        loop cannot be visited; use `run` then.
        """
        if self.is_here or not self._thread.is_alive() or not isinstance(self.loop, VisitableLoop):
            return None
        return self.loop.visit(lambda: self._visited_by(work))

    def _visited_by(self, work: Callable[[], T]) -> T | None:
        if self._is_over:
            return None
        self._visitor = threading.current_thread()
        try:
            return work()
        finally:
            self._visitor = None

    def make(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the constructor of the client. If it fails, stop the thread."""
        try:
            return self.run(work)
        except BaseException:
            self.stop(timeout_s=_STOP_S)
            raise

    def post(self, callback: Callable[[], object]) -> None:
        """Schedule a function on the loop."""
        if not self._thread.is_alive():
            self._refuse()
        with self._door:
            if self._is_over:
                raise ClientClosed("the client is closed")
            self.loop.call_soon_threadsafe(callback)

    def stop(self, *, timeout_s: float) -> None:
        """Stop the loop and wait for its thread. Idempotent."""
        if self._thread.is_alive() and not self.is_here:
            with self._door:
                if not self._is_over:
                    self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout_s)

    def _refuse(self) -> None:
        if self.is_here:
            raise ClientClosed("a callback of a client must not call the same client and wait")
        raise ClientClosed("the client is closed, or was created before this process was forked")

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            with self._door:
                self._is_over = True
            self._cancel_all()
            self.loop.close()

    def _cancel_all(self) -> None:
        # One iteration first, so that work submitted last becomes a task.
        self.loop.run_until_complete(asyncio.sleep(0))
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


class Wakeup:
    """Schedules a function once per burst of calls."""

    __slots__ = ("_is_set", "_post", "_work")

    def __init__(self, post: Callable[[Callable[[], object]], object], work: Callable[[], object]):
        self._post = post
        self._work = work
        self._is_set = False

    def set(self) -> None:
        """Schedule the function on the loop, unless it is scheduled already."""
        if not self._is_set:
            self._is_set = True
            self._post(self._fire)

    def _fire(self) -> None:
        # Cleared first: work added while the function runs needs another call.
        self._is_set = False
        self._work()
