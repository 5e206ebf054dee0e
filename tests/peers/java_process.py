"""A Java program that can be killed and restarted."""

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.peers.apache_kafka import java
from tests.peers.jars import Peer
from tests.peers.processes import end, start_until

_LAST_LINES: Final = 40
# Without messages about a dead broker, which are many and expected.
_COMPLAINT: Final = re.compile(
    r"(?s)^(?!.*NetworkClient).*( ERROR | WARN |Exception: |state ERROR)"
)
_LOGGER: Final = "-Dorg.slf4j.simpleLogger"


class JavaProcess:
    """A main class or source file with its arguments, and the log that all runs share.

    `fatal` is a pattern of lines after which the program does not recover.
    """

    def __init__(
        self,
        peer: Peer,
        program: Sequence[str],
        log: Path,
        *,
        is_ready: Callable[[str], bool],
        fatal: str,
        level: str = "warn",
        jvm_options: Sequence[str] | None = None,
    ) -> None:
        jvm, *options = java(peer, heap="256m", level=level, options=jvm_options)
        show_time = (f"{_LOGGER}.showDateTime=true", f"{_LOGGER}.dateTimeFormat=HH:mm:ss.SSS")
        self._command = [jvm, *show_time, *options, *program]
        self._is_ready = is_ready
        self._fatal = re.compile(fatal)
        self._checked_bytes = 0
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Start, and return when a line of its output says that it is ready."""
        self._process = start_until(self._command, self._is_ready, self._log)
        return self

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def check(self) -> None:
        """Fail early if the program has logged a fatal error."""
        if not self._log.exists():
            return
        with self._log.open("rb") as log:
            log.seek(self._checked_bytes)
            whole_lines, newline, _ = log.read().rpartition(b"\n")
        self._checked_bytes += len(whole_lines + newline)
        assert self._fatal.search(whole_lines.decode()) is None, self.logged_errors()

    def logged_errors(self) -> str:
        """The last warnings and errors of its log."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        found = [line for line in lines if _COMPLAINT.search(line)]
        return "\n".join([f"{self._log}:", *found[-_LAST_LINES:]])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
