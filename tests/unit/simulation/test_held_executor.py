"""The executor of the simulator."""

import random
from functools import partial

from headwater.common.exceptions import StorageError
from tests.simulation.fakes.held_executor import HeldExecutor


def test_jobs_run_and_report_on_demand() -> None:
    executor = HeldExecutor(random.Random(1))
    seen: list[object] = []
    executor.submit(lambda: seen.append("ran"), then=seen.append, on_error=seen.append)
    assert seen == []
    assert executor.work()
    assert seen == ["ran"]
    assert executor.waiting_count == 1
    assert executor.deliver()
    assert seen == ["ran", None]
    assert not executor.step()


def test_a_storage_error_goes_to_the_other_callback() -> None:
    def fail() -> None:
        raise StorageError("broken")

    executor = HeldExecutor(random.Random(1))
    errors: list[StorageError] = []
    executor.submit(fail, then=lambda _: None, on_error=errors.append)
    executor.finish()
    assert [str(error) for error in errors] == ["broken"]


def test_every_order_is_possible() -> None:
    orders = {}
    for seed in range(40):
        executor = HeldExecutor(random.Random(seed))
        seen: list[int] = []
        for number in range(3):
            executor.submit(partial(int, number), then=seen.append, on_error=lambda _: None)
        executor.finish()
        orders[tuple(seen)] = seed
    assert len(orders) == 6


def test_a_crash_takes_what_waits_with_it() -> None:
    executor = HeldExecutor(random.Random(1))
    seen: list[int] = []
    for number in range(2):
        executor.submit(partial(int, number), then=seen.append, on_error=lambda _: None)
    executor.work()
    executor.crash()
    executor.finish()
    assert seen == []
