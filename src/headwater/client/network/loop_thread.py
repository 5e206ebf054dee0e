"""The thread behind a blocking client: one daemon thread with one asyncio loop.

Three ways lead onto it. `run` starts a coroutine and waits for its result, for calls that wait for
the cluster anyway. A `Wakeup` asks for one function to be called soon, once per burst: the many
callers of a busy moment share one wake-up, so a record costs no system call. And `visit` does
something short in the caller's thread while the loop does nothing, for calls that find what they
want: to wake another thread and to be woken by it costs more than most of them do.

What a reader would get wrong: threads do not survive a fork. In the child of a fork there is
nobody behind the client, so its calls raise `ClientClosed` instead of hanging. Make a client in the
process that uses it.
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
    """A running loop in a thread of its own. Thread-safe."""

    def __init__(self, name: str) -> None:
        self.loop = new_loop(is_visited=True)
        # Held for handing work over and for the end, so that no work comes too late to be seen.
        self._door = threading.Lock()
        self._is_over = False
        self._visitor: threading.Thread | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the caller is the loop's own thread or visits it; none must wait for itself."""
        return threading.current_thread() in (self._thread, self._visitor)

    @property
    def is_running(self) -> bool:
        """Whether there is somebody behind it; not so after `stop`, and not in a forked child."""
        return self._thread.is_alive()

    def check_not_here(self) -> None:
        """Raise `ClientClosed` where waiting would never end."""
        if self.is_here or not self._thread.is_alive():
            self._refuse()

    def run(self, work: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for it.

        The coroutine should keep its own deadline; `timeout_s` is the net below it. When it is
        over, the coroutine is cancelled and `KafkaTimeout` raised.
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
            # The end came while the work was under way.
            raise ClientClosed("the client was closed meanwhile") from None
        except FutureTimeout as error:
            if future.done():
                # The coroutine's own: KafkaTimeout is one of these too.
                raise
            future.cancel()
            raise KafkaTimeout(f"not done within {timeout_s} s") from error
        except BaseException:
            # Ctrl-C in the waiting thread must not leave the work behind.
            future.cancel()
            raise

    def visit(self, work: Callable[[], T]) -> T | None:
        """Do something short in the caller's thread, between two turns of the loop.

        That costs no switch of threads, but nothing may be scheduled by it. None if this loop
        cannot be visited; then `run` is the way.
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
        """Run what makes the client. If it fails, the thread ends: nobody else could end it."""
        try:
            return self.run(work)
        except BaseException:
            self.stop(timeout_s=_STOP_S)
            raise

    def post(self, callback: Callable[[], object]) -> None:
        """Have something called on the loop soon."""
        if not self._thread.is_alive():
            self._refuse()
        with self._door:
            if self._is_over:
                raise ClientClosed("the client is closed")
            self.loop.call_soon_threadsafe(callback)

    def stop(self, *, timeout_s: float) -> None:
        """End the loop and wait for its thread that long. May be called again."""
        if self._thread.is_alive() and not self.is_here:
            with self._door:
                if not self._is_over:
                    self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout_s)

    def _refuse(self) -> None:
        if self.is_here:
            raise ClientClosed("a callback of a client must not wait for the same client")
        raise ClientClosed("the client is closed, or was made before this process was forked")

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
        # One turn first: work that was handed over last is a task only then.
        self.loop.run_until_complete(asyncio.sleep(0))
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


class Wakeup:
    """One wake-up per burst: calls between the first one and its effect cost an attribute read."""

    __slots__ = ("_is_set", "_post", "_work")

    def __init__(self, post: Callable[[Callable[[], object]], object], work: Callable[[], object]):
        self._post = post
        self._work = work
        self._is_set = False

    def set(self) -> None:
        """Have the work called on the loop soon, if that is not on its way already."""
        if not self._is_set:
            self._is_set = True
            self._post(self._fire)

    def _fire(self) -> None:
        # Cleared first: what is added while the work runs needs another round.
        self._is_set = False
        self._work()
