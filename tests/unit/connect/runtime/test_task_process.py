"""The process of a task, with small programs in its place."""

import asyncio
import sys
from dataclasses import dataclass, field

from headwater.connect.runtime.task.task_setup import STARTED, TOPIC_USED, TaskReport, TaskSetup
from headwater.connect.runtime.task_process import TaskProcess

SETUP = TaskSetup(
    connector="orders",
    config={"name": "orders", "password": "secret"},
    group_id="g",
    offset_topic="o",
    client={"bootstrap.servers": "a:9092"},
)
TIMEOUT_S = 60.0
# Kept as short as the test needs: it must expire.
SOON_S = 0.2
READY = "import json, sys, signal; print(json.dumps({'event': 'started', 'text': ''}), flush=True)"


@dataclass
class Run:
    """One run of a program as a task."""

    program: str
    stop_timeout_s: float = TIMEOUT_S
    reports: list[TaskReport] = field(default_factory=list)

    def to_its_end(self, *, stops_when_started: bool = False) -> str:
        async def run() -> str:
            process: TaskProcess

            def on_report(report: TaskReport) -> None:
                self.reports.append(report)
                if stops_when_started:
                    process.stop()

            process = TaskProcess(
                SETUP, on_report=on_report, program=(sys.executable, "-c", self.program)
            )
            async with asyncio.timeout(TIMEOUT_S):
                return await process.run(stop_timeout_s=self.stop_timeout_s)

        return asyncio.run(run())


def test_the_setup_arrives_on_standard_input() -> None:
    run = Run(
        "import json, sys; found = json.loads(sys.stdin.readline());"
        "print(json.dumps({'event': 'topic', 'text': found['config']['password']}))"
    )
    run.to_its_end()
    assert run.reports == [TaskReport(TOPIC_USED, "secret")]
    assert TaskSetup.from_line(SETUP.to_line().decode()) == SETUP


def test_a_task_that_reports_its_failure_ends_with_that_trace() -> None:
    run = Run(
        f"{READY}; print(json.dumps({{'event': 'failed', 'text': 'why'}})); sys.exit(1)",
    )
    assert run.to_its_end() == "why"
    assert run.reports == [TaskReport(STARTED)]


def test_a_task_that_ends_by_itself_or_is_killed_has_failed() -> None:
    assert Run("pass").to_its_end() == (
        "the task's process exited with code 0 before it was stopped"
    )
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert Run(killed).to_its_end() == "the task's process was killed by signal 9"


def test_a_task_that_is_stopped_has_not_failed() -> None:
    run = Run(f"{READY}; signal.pause()")
    assert run.to_its_end(stops_when_started=True) == ""


def test_a_task_that_ignores_the_stop_is_killed() -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    run = Run(f"import signal; {deaf}; {READY}\nwhile True: signal.pause()", stop_timeout_s=SOON_S)
    assert run.to_its_end(stops_when_started=True) == ""


def test_lines_that_are_no_report_are_ignored() -> None:
    run = Run(f"print('hello'); print('{{}}'); {READY}")
    run.to_its_end()
    assert run.reports == [TaskReport(STARTED)]
