"""A child process with its own directory, base of all embedded servers.

Note: the directory outlives the process. After `stop` or `kill`, `start` continues with its
contents; only `close` removes it, or the end of this process for any reason: see
`headwater.testing.child`.
"""

import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from headwater.common.exceptions import BrokerDidNotStart


class EmbeddedProcess(ABC):
    """A child process. Start it with `with` or `start`; `close` ends it."""

    def __init__(self, *, name: str, folder_prefix: str, log_name: str, timeout_s: float) -> None:
        self._name = name
        self._folder_prefix = folder_prefix
        self._log_name = log_name
        self._timeout_s = timeout_s
        self._folder: Path | None = None
        self._remove_folder: Callable[[], object] | None = None
        self._child: Child | None = None

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_running

    @property
    def pid(self) -> int:
        assert self._child is not None, f"{self._name} was never started"
        return self._child.pid

    @property
    def log_text(self) -> str:
        """The log since the first start, with standard error."""
        if self._folder is None:
            return ""
        log_file = self._folder / self._log_name
        return log_file.read_text(encoding="utf-8", errors="replace")

    def start(self) -> Self:
        """Return when it serves. `BrokerDidNotStart` has its log if it fails."""
        assert not self.is_running, f"{self._name} is running"
        folder = self._folder or self._make_folder()
        self._child = Child(self._arguments(folder), folder, folder / self._log_name)
        weakref.finalize(self, Child.kill, self._child)
        try:
            line = self._child.ready_line(self._timeout_s)
        except BrokerDidNotStart as failure:
            self._child.kill()
            raise BrokerDidNotStart(f"{self._name} {failure}; log:\n{self.log_text}") from None
        self._serves(line)
        return self

    def stop(self) -> None:
        """Stop with SIGTERM, after a flush to disk. The directory stays."""
        if self._child is not None:
            self._child.stop(self._timeout_s)

    def kill(self) -> None:
        """Kill the process, as in a crash. The directory stays."""
        if self._child is not None:
            self._child.kill()

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same port and directory."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the process and remove its directory. Idempotent."""
        self.kill()
        if self._remove_folder is not None:
            self._remove_folder()
        self._folder = None

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def _arguments(self, folder: Path) -> list[str]:
        """The arguments of the `headwater` command."""

    @abstractmethod
    def _serves(self, line: str) -> None:
        """Read the ready line."""

    def _make_folder(self) -> Path:
        self._folder = Path(tempfile.mkdtemp(prefix=self._folder_prefix))
        self._remove_folder = weakref.finalize(self, _remove_tree, self._folder, os.getpid())
        return self._folder


class Child:
    """One run of the process."""

    def __init__(self, arguments: list[str], folder: Path, log_file: Path) -> None:
        self._owner_pid = os.getpid()
        command = [sys.executable, "-P", "-m", "headwater.testing.child"]
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(os.getpid()), str(folder), *arguments],
                # Held open for the lifetime of this process.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C goes to the test process, which then ends the child.
                process_group=0,
            )
        assert self._process.stdout is not None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=_pass_on, args=(self._process.stdout, self._lines), daemon=True
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def ready_line(self, timeout_s: float) -> str:
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise BrokerDidNotStart(f"was not ready within {timeout_s} s") from None
        if not line:
            code = self._process.wait()
            raise BrokerDidNotStart(f"exited with code {code}")
        return line

    def stop(self, timeout_s: float) -> None:
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        self._tidy()

    def kill(self) -> None:
        # A forked process has a copy of this object, but not the child; and the copied pipe is
        # locked forever by a reader thread that was not forked.
        if os.getpid() != self._owner_pid:
            return
        if self.is_running:
            self._process.kill()
            self._process.wait()
        self._tidy()

    def _tidy(self) -> None:
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def _pass_on(output: IO[str], lines: queue.SimpleQueue[str]) -> None:
    """Queue all lines, then an empty one, so that the child never blocks."""
    for line in output:
        lines.put(line)
    lines.put("")


def _remove_tree(folder: Path, owner_pid: int) -> None:
    # A forked process has a copy of the object, but must not remove the directory.
    if os.getpid() == owner_pid:
        shutil.rmtree(folder, ignore_errors=True)
