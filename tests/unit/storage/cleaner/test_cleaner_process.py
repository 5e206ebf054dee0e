"""Cleaning in a child process: how it ends, and that it never outlives its parent."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.storage.cleaner.cleaner import clean
from headwater.storage.cleaner.cleaner_process import CHILD_COMMAND, CleanerProcess
from headwater.storage.cleaner.cleaning_job import (
    CleaningFailure,
    CleaningJob,
    CleaningResult,
    FailureKind,
)
from headwater.storage.cleaner.cleaning_job_json import job_line
from headwater.storage.cleaner.segment_swap import apply
from headwater.storage.io.os_disk import OsDisk
from tests.simulation.fakes.simple_log import SimpleLog, read_committed

DEADLINE_SECONDS = 60


@pytest.fixture
def log(tmp_path: Path) -> SimpleLog:
    log = SimpleLog(OsDisk(), folder=tmp_path / "topic-0")
    for number in range(50):
        log.append([(b"%d" % (number % 7), b"v" * 1000)])
    log.roll()
    return log


def slowly(job: CleaningJob) -> CleaningJob:
    """The same job, throttled so that it would take hours."""
    return replace(job, io_max_bytes_per_second=1, io_buffer_bytes=2000)


def run_in_thread(process: CleanerProcess) -> Callable[[], CleaningResult | CleaningFailure]:
    outcomes: list[CleaningResult | CleaningFailure] = []
    thread = threading.Thread(target=lambda: outcomes.append(process.run()))
    thread.start()

    def wait() -> CleaningResult | CleaningFailure:
        thread.join(DEADLINE_SECONDS)
        assert outcomes, "the cleaning did not end"
        return outcomes[0]

    return wait


def child_of(process: CleanerProcess) -> int:
    """Wait for the child and return its pid."""
    waiting = threading.Event()
    for _ in range(DEADLINE_SECONDS * 100):
        if process.pid is not None:
            return process.pid
        waiting.wait(0.01)
    raise AssertionError("the child did not start")


def test_child_returns_the_same_result_as_cleaning_in_process(log: SimpleLog) -> None:
    job = log.job()
    expected = clean(log.disk, job)
    outcome = CleanerProcess(log.disk, job).run()
    assert outcome == expected
    assert isinstance(outcome, CleaningResult)
    apply(log.disk, log.folder, outcome)
    assert [pair.offset for pair in read_committed(log.disk, 99, log.folder)] == list(range(43, 50))


def test_corruption_is_reported_with_position_and_no_file_is_left(log: SimpleLog) -> None:
    names = log.disk.names(log.folder)
    job = log.job()
    file = log.disk.open(job.log_path(job.sources[0]))
    file.write([b"\xff"], 100)
    file.close()
    outcome = CleanerProcess(log.disk, job).run()
    assert isinstance(outcome, CleaningFailure)
    assert outcome.kind is FailureKind.CORRUPT
    assert "00000000000000000000.log, position 0" in outcome.reason
    assert log.disk.names(log.folder) == names


def test_failing_disk_is_reported(log: SimpleLog) -> None:
    job = log.job()
    log.disk.remove(job.log_path(job.sources[0]))
    outcome = CleanerProcess(log.disk, job).run()
    assert isinstance(outcome, CleaningFailure)
    assert outcome.kind is FailureKind.STORAGE


def test_lack_of_disk_space_is_reported_before_anything_is_written(log: SimpleLog) -> None:
    job = log.job()
    huge = replace(job.sources[0], size_bytes=1 << 60)
    outcome = CleanerProcess(log.disk, replace(job, sources=(huge,))).run()
    assert isinstance(outcome, CleaningFailure)
    assert outcome.kind is FailureKind.NO_SPACE


def test_killed_child_is_reported_as_crash_and_leaves_the_log_unchanged(log: SimpleLog) -> None:
    names = log.disk.names(log.folder)
    process = CleanerProcess(log.disk, slowly(log.job()))
    wait = run_in_thread(process)
    os.kill(child_of(process), signal.SIGKILL)
    outcome = wait()
    assert outcome == CleaningFailure(FailureKind.CRASHED, "the cleaner was killed by SIGKILL")
    assert log.disk.names(log.folder) == names


def test_cancelled_cleaning_ends_at_once_and_removes_its_files(log: SimpleLog) -> None:
    names = log.disk.names(log.folder)
    process = CleanerProcess(log.disk, slowly(log.job()))
    wait = run_in_thread(process)
    child_of(process)
    process.cancel()
    outcome = wait()
    assert isinstance(outcome, CleaningFailure)
    assert outcome.kind is FailureKind.CANCELLED
    assert log.disk.names(log.folder) == names
    process.cancel()


def test_cleaning_cancelled_before_its_start_never_starts(log: SimpleLog) -> None:
    process = CleanerProcess(log.disk, log.job())
    process.cancel()
    outcome = process.run()
    assert isinstance(outcome, CleaningFailure)
    assert outcome.kind is FailureKind.CANCELLED
    assert process.pid is None


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit(5)", "status 5"),
        ("import sys; sys.stdin.readline()", "status 0"),
        ("import sys; sys.stdin.readline(); sys.stdout.write('{\"result\"')", "status 0"),
        ("import os; os.abort()", "SIGABRT"),
    ],
)
def test_child_that_exits_without_result_has_crashed(
    log: SimpleLog, program: str, reason: str
) -> None:
    command = (sys.executable, "-c", program)
    outcome = CleanerProcess(log.disk, log.job(), command=command).run()
    assert isinstance(outcome, CleaningFailure)
    assert outcome.kind is FailureKind.CRASHED
    assert reason in outcome.reason


def test_child_that_cannot_be_started_is_reported_as_crash(log: SimpleLog) -> None:
    outcome = CleanerProcess(log.disk, log.job(), command=("/no/such/program",)).run()
    assert isinstance(outcome, CleaningFailure)
    assert outcome.kind is FailureKind.CRASHED


PARENT = """
import sys, threading
from headwater.storage.cleaner.cleaning_job_json import read_job
from headwater.storage.cleaner.cleaner_process import CleanerProcess
from headwater.storage.io.os_disk import OsDisk

process = CleanerProcess(OsDisk(), read_job(sys.stdin.readline()))
threading.Thread(target=process.run, daemon=True).start()
pause = threading.Event()
while process.pid is None:
    pause.wait(0.01)
print(process.pid, flush=True)
pause.wait()
"""


def test_child_of_a_killed_parent_exits_soon(log: SimpleLog) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(job_line(slowly(log.job())))
        parent.stdin.flush()
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        ended, _, _ = select.select([child], [], [], DEADLINE_SECONDS)
        assert ended, "the child outlived its parent"
    finally:
        os.close(child)


def test_child_exits_when_its_parent_closes_stdin(log: SimpleLog) -> None:
    """For systems without PR_SET_PDEATHSIG."""
    child = subprocess.Popen(
        [*CHILD_COMMAND, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    child.communicate(job_line(slowly(log.job())), timeout=DEADLINE_SECONDS)
    assert child.returncode == 3


def test_child_of_another_process_does_not_start() -> None:
    """Its stdin stays open, so only the parent's pid can tell."""
    child = subprocess.Popen([*CHILD_COMMAND, "1"], stdin=subprocess.PIPE)
    with child:
        try:
            assert child.wait(DEADLINE_SECONDS) == 3
        finally:
            child.kill()


def test_child_imports_few_modules() -> None:
    program = (
        "import sys, headwater.storage.cleaner.cleaner_child; "
        "print([name for name in ('pyarrow', 'numpy', 'asyncio', 'typer', 'rich') "
        "if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout == "[]\n"


@pytest.mark.parametrize("is_running", [False, True])
def test_a_new_io_limit_reaches_the_child_before_and_during_the_job(
    log: SimpleLog, is_running: bool
) -> None:
    process = CleanerProcess(log.disk, slowly(log.job()))
    if is_running:
        # Slow enough to be told, fast enough to notice it after the sleep that it is in.
        process = CleanerProcess(
            log.disk, replace(log.job(), io_max_bytes_per_second=1_000, io_buffer_bytes=2_000)
        )
        wait = run_in_thread(process)
        child_of(process)
        process.limit_io(1 << 40)
    else:
        process.limit_io(1 << 40)
        wait = run_in_thread(process)
    assert isinstance(wait(), CleaningResult)
