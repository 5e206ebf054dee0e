"""The processes of the tour, in a temporary folder that is removed with them.

Note: each process has a session of its own, so that Ctrl-C reaches only the tour, which then ends
the processes in order. If the tour is killed, the kernel ends its servers.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Final, Self

from headwater.cli.quickstart.tour import FOREIGN_SETTINGS, Execute, Serve, ready_address
from headwater.common.exceptions import HeadwaterError
from headwater.process import die_with_parent

READY_S: Final = 60.0
STOP_S: Final = 10.0
LOG_LINES_SHOWN: Final = 5


class CommandFailed(HeadwaterError):
    """A command of the tour failed, or a server did not become ready."""


class TourProcesses:
    """Run the tour's commands. A context manager that ends and removes everything."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headwater-quickstart-"))
        self._environment = dict(environment)
        for name in FOREIGN_SETTINGS:
            self._environment.pop(name, None)
        self._environment["PATH"] = os.pathsep.join((self._own_bin(), environment.get("PATH", "")))
        self._running: list[subprocess.Popen[str]] = []

    @property
    def folder(self) -> Path:
        return self._folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A second Ctrl-C must not leave processes behind; ending them takes seconds at most.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for each in reversed(self._running):
                _end(each)
            shutil.rmtree(self._folder, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, before)

    def set(self, name: str, value: str) -> None:
        """Set an environment variable for the following commands."""
        self._environment[name] = value

    def run(self, command: Execute) -> None:
        """Run a command to its end, with our terminal. Raises `CommandFailed`."""
        words = ["sh", "-c", command.line] if command.needs_shell else shlex.split(command.line)
        process = self._start(words, stdout=None, stderr=None)
        code = process.wait()
        self._running.remove(process)
        if code != 0:
            raise CommandFailed(f"`{command.line}` failed with exit code {code}")

    def serve(self, command: Serve) -> tuple[str, str]:
        """Start a server and return its ready line and address. Raises `CommandFailed`."""
        log_file = self._folder / f"{shlex.split(command.line)[1]}.log"
        with log_file.open("wb") as log:
            process = self._start(
                shlex.split(command.line), stdout=subprocess.PIPE, stderr=log.fileno()
            )
        assert process.stdout is not None
        limit = Timer(READY_S, process.kill)
        limit.start()
        try:
            for line in process.stdout:
                address = ready_address(line, command)
                if address is not None:
                    return line.rstrip("\n"), address
            code = process.wait()
        finally:
            limit.cancel()
        lines = log_file.read_text("utf-8", "replace").splitlines()[-LOG_LINES_SHOWN:]
        reason = "\n  ".join(["", *lines]) if lines else ""
        raise CommandFailed(f"`{command.line}` ended with exit code {code} before ready{reason}")

    def _start(
        self, words: list[str], *, stdout: int | None, stderr: int | None
    ) -> subprocess.Popen[str]:
        wrapper = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
        process = subprocess.Popen(
            [*wrapper, *words],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def _own_bin(self) -> str:
        """Return a directory with a `headwater` of this very installation."""
        installed = Path(sys.executable).parent
        if os.access(installed / "headwater", os.X_OK):
            return str(installed)
        folder = self._folder / "bin"
        folder.mkdir()
        script = folder / "headwater"
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m headwater "$@"\n')
        script.chmod(0o700)
        return str(folder)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and what it has started, then close its pipe."""
    _signal(process, signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    # The group outlives its first process: a pipe's other commands are in it, too.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
