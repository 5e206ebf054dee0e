"""Run a cleaning in a child process and turn every ending into a value.

Note: `run` blocks and belongs in an executor job. The thread that starts the child must also wait
for it, because on Linux the child is killed when that thread ends, not the process. `cancel` may be
called from any other thread.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from headwater.storage.cleaner.cleaner import remove_outputs
from headwater.storage.cleaner.cleaning_job import (
    CleaningFailure,
    CleaningJob,
    CleaningResult,
    FailureKind,
)
from headwater.storage.cleaner.cleaning_job_json import io_limit_line, job_line, read_message
from headwater.storage.io.disk import Disk

CHILD_COMMAND = (sys.executable, "-P", "-m", "headwater.storage.cleaner.cleaner_child")


class CleanerProcess:
    """One cleaning in a child process. Runs once."""

    def __init__(
        self,
        disk: Disk,
        job: CleaningJob,
        *,
        command: Sequence[str] = CHILD_COMMAND,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self._disk = disk
        self._job = job
        self._command = (*command, str(os.getpid()))
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._is_cancelled = False
        self._io_limit = job.io_max_bytes_per_second
        self._has_job = False

    def run(self) -> CleaningResult | CleaningFailure:
        """Clean and wait for the result. Without a result, no file of the child is left."""
        outcome: CleaningResult | CleaningFailure | None = None
        try:
            outcome = self._run_child()
            return outcome
        finally:
            if not isinstance(outcome, CleaningResult):
                remove_outputs(self._disk, self._job.folder)

    def cancel(self) -> None:
        """Kill the child; `run` then returns a failure CANCELLED, unless it is done."""
        with self._lock:
            self._is_cancelled = True
            if self._child is not None:
                # Popen knows whether the child has been waited for, and then sends no signal.
                self._child.kill()

    def limit_io(self, bytes_per_second: int) -> None:
        """Tell the child its share of the I/O budget, as soon as it has a job."""
        with self._lock:
            self._io_limit = bytes_per_second
            if self._has_job:
                self._tell_io_limit()

    @property
    def pid(self) -> int | None:
        """Process id of the child, once it has been started."""
        child = self._child
        return None if child is None else child.pid

    def _run_child(self) -> CleaningResult | CleaningFailure:
        try:
            child = self._start()
        except OSError as error:
            return CleaningFailure(FailureKind.CRASHED, f"the cleaner did not start: {error}")
        if child is None:
            return CleaningFailure(FailureKind.CANCELLED, "cancelled before it started")
        try:
            outcome = self._exchange(child)
        finally:
            # Also if a callback raised: no child may keep running unsupervised.
            child.kill()
            with self._lock:
                self._has_job = False
            _close(child.stdout)
            _close(child.stdin)
            child.wait()
        if isinstance(outcome, CleaningResult):
            return outcome
        if self._is_cancelled:
            return CleaningFailure(FailureKind.CANCELLED, "cancelled")
        return outcome or CleaningFailure(FailureKind.CRASHED, _exit_reason(child.returncode))

    def _start(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._is_cancelled:
                return None
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            return self._child

    def _exchange(self, child: "subprocess.Popen[str]") -> CleaningResult | CleaningFailure | None:
        """Send the job, read messages until the result; None if the child ended."""
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(job_line(self._job))
            child.stdin.flush()
            with self._lock:
                self._has_job = True
                if self._io_limit != self._job.io_max_bytes_per_second:
                    self._tell_io_limit()
        except BrokenPipeError:
            child.wait()
            return None
        for line in child.stdout:
            if not line.endswith("\n"):
                break
            message = read_message(line)
            if not isinstance(message, int):
                return message
            if self._on_progress is not None:
                self._on_progress(message)
        child.wait()
        return None

    def _tell_io_limit(self) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        # The child may have ended; `run` finds that out.
        with suppress(BrokenPipeError):
            self._child.stdin.write(io_limit_line(self._io_limit))
            self._child.stdin.flush()


def _close(stream: IO[str] | None) -> None:
    assert stream is not None
    try:
        stream.close()
    except BrokenPipeError:
        # The child that should have read the rest is dead.
        return


def _exit_reason(status: int) -> str:
    if status < 0:
        return f"the cleaner was killed by {signal.Signals(-status).name}"
    return f"the cleaner exited with status {status} without a result"
