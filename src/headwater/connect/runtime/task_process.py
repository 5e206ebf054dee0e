"""The child process of a task: start it, read its reports, and stop it."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from headwater.connect.runtime.task.task_setup import FAILED, TaskReport, TaskSetup
from headwater.process import die_with_parent

_PROGRAM: Final = (sys.executable, "-P", "-m", "headwater.connect.runtime.task.connector_task")
_LINE_BYTES_MAX: Final = 1 << 20

log = logging.getLogger(__name__)


class TaskProcess:
    """One process. It dies with the worker."""

    def __init__(
        self,
        setup: TaskSetup,
        *,
        on_report: Callable[[TaskReport], None],
        program: Sequence[str] = _PROGRAM,
    ) -> None:
        self._setup = setup
        self._program = program
        self._on_report = on_report
        self._process: asyncio.subprocess.Process | None = None
        self._trace = ""
        self._is_stopping = False
        self._stopping = asyncio.Event()

    async def run(self, *, stop_timeout_s: float) -> str:
        """Run the process until it has ended; return why, empty if it was stopped."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                die_with_parent.__file__,
                str(os.getpid()),
                *self._program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE_BYTES_MAX,
            )
        except OSError as error:
            return f"cannot start the task's process: {error}"
        process = self._process
        stopping = asyncio.create_task(self._stop_when_asked(process, stop_timeout_s))
        try:
            assert process.stdin is not None, "it is a pipe"
            with suppress(ConnectionError):
                process.stdin.write(self._setup.to_line())
                await process.stdin.drain()
            await self._read_reports(process)
            code = await process.wait()
        finally:
            stopping.cancel()
            with suppress(ProcessLookupError):
                process.kill()
        if self._is_stopping:
            return ""
        return self._trace or _reason(code)

    def stop(self) -> None:
        """Ask the process to end after its current batch."""
        self._is_stopping = True
        self._stopping.set()

    async def _stop_when_asked(self, process: asyncio.subprocess.Process, timeout_s: float) -> None:
        await self._stopping.wait()
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(timeout_s)
            log.warning("Task did not stop in time: connector=%s", self._setup.connector)
            process.kill()

    async def _read_reports(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None, "it is a pipe"
        async for line in process.stdout:
            try:
                report = TaskReport.from_line(line)
            except (ValueError, KeyError):
                log.warning("Task wrote to standard output: connector=%s", self._setup.connector)
                continue
            if report.event == FAILED:
                self._trace = report.text
            else:
                self._on_report(report)


def _reason(code: int) -> str:
    if code < 0:
        return f"the task's process was killed by signal {-code}"
    return f"the task's process exited with code {code} before it was stopped"
