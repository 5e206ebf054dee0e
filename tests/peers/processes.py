"""Child processes that live no longer than the tests that started them.

What a reader would get wrong: a child is tied to the *thread* that started it (Linux sends the
signal when that thread ends), so start brokers from the main thread.
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
    """A broker that ended, or fell silent, before it said that it was ready."""


def start_until(
    command: Sequence[str], is_ready: Callable[[str], bool], log: Path
) -> subprocess.Popen[str]:
    """Start a process and wait until a line that it prints says that it is ready.

    All that it prints goes into the log, later too: a full pipe would stop it in the middle.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_die_with_us(),
    )
    readiness: Queue[bool] = Queue()
    reader = threading.Thread(
        target=_copy, args=(process.stdout, log, is_ready, readiness), daemon=True
    )
    reader.start()
    if readiness.get():
        return process
    process.kill()
    process.wait()
    last = log.read_text().splitlines(keepends=True)[-_LAST_LINES:]
    raise DidNotStart(f"{command[0]} ended with {process.returncode}:\n{''.join(last)}")


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


def free_port() -> int:
    """A port that was free a moment ago; the kernel does not give it out again at once."""
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
