"""Jobs on threads, results on the event loop, which is a queue here that the test empties."""

import queue
import threading
from collections.abc import Callable

import pytest

from headwater.common.exceptions import QueueFull, StorageError
from headwater.storage.io.executor import Executor
from headwater.storage.io.thread_executor import ThreadExecutor
from tests.simulation.labs.log_lab import LogLab


class Loop:
    """Runs posted callbacks on the test's own thread."""

    def __init__(self) -> None:
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def post(self, callback: Callable[[], None]) -> None:
        self._posted.put(callback)

    def run_one(self) -> None:
        self._posted.get(timeout=30)()


def ignore(_: object) -> None:
    """A callback that the test does not expect to matter."""


def test_job_runs_on_a_thread_and_its_result_comes_back_on_the_loop() -> None:
    loop, seen = Loop(), list[object]()
    executor = ThreadExecutor(1, loop.post)

    def then(worker: int) -> None:
        seen.extend([worker != threading.get_ident(), executor.unfinished_count])

    executor.submit(threading.get_ident, then=then, on_error=ignore)
    assert executor.unfinished_count == 1
    loop.run_one()
    assert seen == [True, 0]
    executor.close()


def test_storage_error_is_reported_on_the_loop() -> None:
    def fail() -> None:
        raise StorageError("disk on fire")

    loop, errors = Loop(), list[StorageError]()
    executor = ThreadExecutor(1, loop.post)
    port: Executor = executor
    port.submit(fail, then=ignore, on_error=errors.append)
    loop.run_one()
    assert [str(error) for error in errors] == ["disk on fire"]
    executor.close()


def test_exception_in_a_job_is_raised_on_the_loop() -> None:
    loop = Loop()
    executor = ThreadExecutor(1, loop.post)
    executor.submit(lambda: 1 // 0, then=ignore, on_error=ignore)
    with pytest.raises(ZeroDivisionError):
        loop.run_one()
    assert executor.unfinished_count == 0
    executor.close()


def test_a_full_queue_refuses_and_recovers() -> None:
    loop, gate = Loop(), threading.Event()
    executor = ThreadExecutor(1, loop.post, queue_limit=1)
    for _ in range(2):
        executor.submit(gate.wait, then=ignore, on_error=ignore)
    with pytest.raises(QueueFull):
        executor.submit(gate.wait, then=ignore, on_error=ignore)
    gate.set()
    loop.run_one()
    executor.submit(gate.wait, then=ignore, on_error=ignore)
    executor.close()


def test_closing_waits_for_every_job_that_was_submitted() -> None:
    loop, done = Loop(), list[int]()
    executor = ThreadExecutor(2, loop.post)

    def job() -> None:
        done.append(sum(range(300_000)))

    for _ in range(6):
        executor.submit(job, then=ignore, on_error=ignore)
    executor.close()
    assert len(done) == 6
    with pytest.raises(QueueFull):
        executor.submit(job, then=ignore, on_error=ignore)


def test_flush_during_shutdown_is_still_done() -> None:
    """Otherwise the log could not be closed, and the shutdown would not be clean."""
    loop, gate, flushed = Loop(), threading.Event(), list[object]()
    executor = ThreadExecutor(1, loop.post)
    lab = LogLab(executor=executor)
    executor.submit(gate.wait, then=ignore, on_error=ignore)
    lab.append(1)
    lab.log.flush()
    lab.append(1)
    lab.log.flush(flushed.append)
    executor.shutdown()
    gate.set()
    executor.close()
    loop.run_one()
    loop.run_one()
    assert flushed == [None]
    lab.log.close()
    assert lab.log.recovery_point == 2
