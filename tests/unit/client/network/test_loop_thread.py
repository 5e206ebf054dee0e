"""The background thread of a blocking client never lets a caller hang."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import pytest

from headwater.client.errors import ClientClosed, KafkaTimeout
from headwater.client.network.loop_thread import LoopThread, Wakeup

TIMEOUT_S = 30.0

FORKING = """
import os, sys
from headwater.client import Producer
from headwater.client.errors import ClientClosed
producer = Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=100)
child = os.fork()
if child == 0:
    for call in (lambda: producer.send("tea", b""), lambda: producer.flush(1)):
        try:
            call()
        except ClientClosed as error:
            assert "forked" in str(error)
        else:
            os._exit(1)
    producer.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
producer.close(0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture
def thread() -> LoopThread:
    return LoopThread("a test")


def test_work_runs_on_the_loop_and_returns_its_result(thread: LoopThread) -> None:
    async def work() -> str:
        return threading.current_thread().name

    assert thread.run(work()) == "a test"
    thread.stop(timeout_s=TIMEOUT_S)
    assert not thread.is_running


def test_a_signal_handler_may_post_while_its_thread_submits_work(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted = threading.Event()
    submit = thread.loop.call_soon_threadsafe

    def interrupted(*args: Any, **kwargs: Any) -> asyncio.Handle:
        # What a handler of Ctrl-C does in a thread that is about to submit work.
        monkeypatch.undo()
        thread.post(posted.set)
        return submit(*args, **kwargs)

    async def work() -> str:
        return "done"

    monkeypatch.setattr(thread.loop, "call_soon_threadsafe", interrupted)
    results: list[str] = []
    caller = threading.Thread(target=lambda: results.append(thread.run(work())), daemon=True)
    caller.start()
    caller.join(TIMEOUT_S)
    assert results == ["done"]
    assert posted.wait(TIMEOUT_S)
    thread.stop(timeout_s=TIMEOUT_S)


def test_work_that_exceeds_the_timeout_is_cancelled(thread: LoopThread) -> None:
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(KafkaTimeout):
        # Enough time to start: work that has not started needs no cleanup.
        thread.run(work(), timeout_s=2)
    assert cancelled.wait(TIMEOUT_S)
    thread.stop(timeout_s=TIMEOUT_S)


def test_a_timeout_raised_by_the_work_is_passed_on(thread: LoopThread) -> None:
    async def work() -> None:
        raise KafkaTimeout("of its own")

    with pytest.raises(KafkaTimeout, match="of its own"):
        thread.run(work(), timeout_s=TIMEOUT_S)
    thread.stop(timeout_s=TIMEOUT_S)


def test_the_loop_thread_cannot_wait_for_itself(thread: LoopThread) -> None:
    async def inner() -> None:
        return None

    async def outer() -> None:
        thread.run(inner())

    with pytest.raises(ClientClosed, match="callback"):
        thread.run(outer())
    thread.stop(timeout_s=TIMEOUT_S)


def test_after_stop_calls_are_rejected(thread: LoopThread) -> None:
    async def work() -> None:
        return None

    thread.stop(timeout_s=TIMEOUT_S)
    thread.stop(timeout_s=TIMEOUT_S)
    with pytest.raises(ClientClosed):
        thread.run(work())
    with pytest.raises(ClientClosed):
        thread.post(lambda: None)


def test_running_work_is_cancelled_by_stop(thread: LoopThread) -> None:
    started, ended = threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    thread.post(lambda: thread.loop.create_task(work()))
    assert started.wait(TIMEOUT_S)
    thread.stop(timeout_s=TIMEOUT_S)
    assert ended.wait(TIMEOUT_S)


def test_stop_in_another_thread_fails_waiting_callers(thread: LoopThread) -> None:
    started = threading.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: thread.run(work()))
        assert started.wait(TIMEOUT_S)
        thread.stop(timeout_s=TIMEOUT_S)
        with pytest.raises(ClientClosed, match="during the call"):
            waiting.result(TIMEOUT_S)


def test_work_submitted_during_stop_does_not_hang(thread: LoopThread) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    def end() -> None:
        thread.loop.stop()
        is_last.set()
        assert has_come.wait(TIMEOUT_S)

    is_last, has_come = threading.Event(), threading.Event()
    thread.post(end)
    assert is_last.wait(TIMEOUT_S)
    coming = asyncio.run_coroutine_threadsafe(work(), thread.loop)
    has_come.set()
    with pytest.raises(CancelledError):
        coming.result(TIMEOUT_S)
    thread.stop(timeout_s=TIMEOUT_S)


def test_a_burst_of_wakeups_runs_once() -> None:
    posted: list[object] = []
    worked: list[int] = []
    wakeup = Wakeup(posted.append, lambda: worked.append(1))
    for _ in range(5):
        wakeup.set()
    assert len(posted) == 1
    (fire,) = posted
    assert callable(fire)
    fire()
    assert worked == [1]
    wakeup.set()
    assert len(posted) == 2


def test_in_a_forked_child_calls_fail_and_do_not_hang() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=TIMEOUT_S * 4
    )
    assert done.returncode == 0, done.stderr


def test_a_visit_runs_in_the_callers_thread(thread: LoopThread) -> None:
    assert thread.visit(threading.current_thread) is threading.current_thread()
    thread.stop(timeout_s=TIMEOUT_S)


def test_during_a_visit_the_loop_is_paused(thread: LoopThread) -> None:
    served = threading.Event()

    def work() -> bool:
        thread.post(served.set)
        # It would run at once if it could.
        return served.wait(0.05)

    assert thread.visit(work) is False
    assert served.wait(TIMEOUT_S)
    thread.stop(timeout_s=TIMEOUT_S)


def test_a_visit_waits_for_the_current_iteration(thread: LoopThread) -> None:
    has_begun, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def turn() -> None:
        has_begun.set()
        assert may_end.wait(TIMEOUT_S)
        order.append("turn")

    thread.post(turn)
    assert has_begun.wait(TIMEOUT_S)
    with ThreadPoolExecutor(1) as pool:
        visiting = pool.submit(thread.visit, lambda: order.append("visit"))
        may_end.set()
        visiting.result(TIMEOUT_S)
    assert order == ["turn", "visit"]
    thread.stop(timeout_s=TIMEOUT_S)


def test_a_busy_loop_can_be_visited(thread: LoopThread) -> None:
    is_over = threading.Event()

    def again() -> None:
        if not is_over.is_set():
            thread.loop.call_soon(again)

    thread.post(again)
    with ThreadPoolExecutor(1) as pool:
        visits = pool.submit(lambda: [thread.visit(lambda: 1) for _ in range(100)])
        assert visits.result(TIMEOUT_S) == [1] * 100
    is_over.set()
    thread.stop(timeout_s=TIMEOUT_S)


def test_an_exception_of_a_visit_is_raised_and_the_loop_continues(thread: LoopThread) -> None:
    with pytest.raises(ZeroDivisionError):
        thread.visit(lambda: 1 // 0)

    async def work() -> str:
        return "goes on"

    assert thread.run(work(), timeout_s=TIMEOUT_S) == "goes on"
    thread.stop(timeout_s=TIMEOUT_S)


def test_a_visitor_cannot_wait_for_the_loop(thread: LoopThread) -> None:
    async def work() -> None: ...

    def visit() -> None:
        with pytest.raises(ClientClosed, match="must not call the same client and wait"):
            thread.run(work(), timeout_s=TIMEOUT_S)

    thread.visit(visit)
    thread.run(work(), timeout_s=TIMEOUT_S)
    thread.stop(timeout_s=TIMEOUT_S)


def test_a_loop_cannot_be_visited_from_its_own_thread_or_after_stop(thread: LoopThread) -> None:
    async def work() -> int | None:
        return thread.visit(lambda: 1)

    assert thread.run(work(), timeout_s=TIMEOUT_S) is None
    thread.stop(timeout_s=TIMEOUT_S)
    assert thread.visit(lambda: 1) is None
