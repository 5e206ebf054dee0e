"""An executor whose jobs take time."""

import random

from headwater.common.exceptions import StorageError
from tests.simulation.fakes.lagging_executor import LaggingExecutor
from tests.simulation.fakes.virtual_time import VirtualTime


class Lab:
    def __init__(self, most_ms: int) -> None:
        self.time = VirtualTime(random.Random(1))
        self.executor = LaggingExecutor(self.time.rand, self.time.after)
        self.executor.most_ms = most_ms
        self.done: list[int] = []
        self.results: list[int | str] = []

    def submit(self, number: int) -> None:
        def job() -> int:
            self.done.append(number)
            if number < 0:
                raise StorageError("it failed")
            return number

        self.executor.submit(
            job, then=self.results.append, on_error=lambda error: self.results.append(str(error))
        )


def test_submit_does_not_run_the_job() -> None:
    lab = Lab(most_ms=0)
    lab.submit(1)
    assert not lab.done
    lab.time.run_for(0)
    assert (lab.done, lab.results) == ([1], [1])


def test_jobs_run_in_any_order_and_report_their_results_later() -> None:
    lab = Lab(most_ms=100)
    for number in range(20):
        lab.submit(number)
    lab.time.run_for(50)
    assert lab.done != sorted(lab.done)
    assert len(lab.results) < len(lab.done)
    lab.time.run_for(150)
    assert sorted(lab.done) == list(range(20))
    assert lab.results != lab.done


def test_a_failed_job_reports_its_error() -> None:
    lab = Lab(most_ms=10)
    lab.submit(-1)
    lab.time.run_for(20)
    assert lab.results == ["it failed"]


def test_finish_runs_every_job_once() -> None:
    lab = Lab(most_ms=100)
    for number in range(5):
        lab.submit(number)
    lab.time.run_for(50)
    lab.executor.finish()
    assert sorted(lab.done) == [0, 1, 2, 3, 4]
    lab.time.run_for(200)
    assert len(lab.done) == len(lab.results) == 5
