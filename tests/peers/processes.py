"""Child processes that end with the tests that started them.

Note: a child is tied to the *thread* that started it (Linux sends the signal when that thread
ends), so start brokers from the main thread.
"""

import ctypes
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Queue
from typing import IO

_PR_SET_PDEATHSIG = 1
_LAST_LINES = 20


class DidNotStart(AssertionError):
    """A broker ended or timed out before it was ready."""


class Launched:
    """A started process, which is ready when it prints a certain line.

    All its output goes to the log, later too: a full pipe would block it.
    """

    def __init__(self, command: Sequence[str], is_ready: Callable[[str], bool], log: Path) -> None:
        self._command = command
        self._log = log
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=_die_with_us(),
        )
        self._readiness: Queue[bool] = Queue()
        reader = threading.Thread(
            target=_copy,
            args=(self._process.stdout, log, is_ready, self._readiness),
            daemon=True,
        )
        reader.start()

    def once_ready(self) -> subprocess.Popen[str]:
        process = self._process
        if self._readiness.get():
            return process
        process.kill()
        process.wait()
        last = self._log.read_text().splitlines(keepends=True)[-_LAST_LINES:]
        raise DidNotStart(f"{self._command[0]} ended with {process.returncode}:\n{''.join(last)}")


def start_until(
    command: Sequence[str], is_ready: Callable[[str], bool], log: Path
) -> subprocess.Popen[str]:
    """Start a process and wait until it is ready."""
    return Launched(command, is_ready, log).once_ready()


def _copy(
    output: IO[str], log: Path, is_ready: Callable[[str], bool], readiness: "Queue[bool]"
) -> None:
    with output, log.open("a") as file:
        for line in output:
            file.write(line)
            file.flush()
            if is_ready(line):
                readiness.put(True)
    readiness.put(False)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def ask_to_end(process: subprocess.Popen[str], timeout_s: float) -> None:
    """Send SIGTERM; kill it if it takes too long."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        end(process)


def free_port() -> int:
    """A port that was free a moment ago; the kernel does not reuse it at once."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _die_with_us() -> Callable[[], None]:
    # The library is loaded here, because little is allowed between fork and exec.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    kill = int(signal.SIGKILL)

    def ask_the_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, kill, 0, 0, 0)

    return ask_the_kernel
