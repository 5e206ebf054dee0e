"""Servers in their own processes, with their CPU time and memory.

Note: a server here is disposable. It is killed and its directory removed, because a clean shutdown
would flush data that is never read, at the expense of the next round.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:(\d+)")
# User and system time of a process, counted after the name, which may contain anything.
_USER_TICKS: Final = 11
_SYSTEM_TICKS: Final = 12
_WATCH_S: Final = 0.2


def cpu_seconds_of(pid: int) -> float:
    """Return the CPU time of all threads of a process, user and system."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    fields = text.rpartition(")")[2].split()
    return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_PER_SECOND


def resident_bytes_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = (each for each in text.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


class PeakMemory:
    """Watches the descendants of this process; `peaks` has the largest RSS by program."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_WATCH_S):
            for pid in descendants_of(os.getpid()):
                try:
                    name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                    size = resident_bytes_of(pid)
                except (OSError, ValueError):
                    # It has ended, or is just ending and has no memory.
                    continue
                self.peaks[name] = max(self.peaks.get(name, 0), size)


def descendants_of(pid: int) -> Iterator[int]:
    """Children of a process, their children and so on."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for each in (task / "children").read_text(encoding="ascii").split():
                yield int(each)
                yield from descendants_of(int(each))


class Server:
    """Child process that prints one line with its `HOST:PORT` when ready. Killed at the end."""

    def __init__(self, command: Sequence[str]) -> None:
        began = time.perf_counter()
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        self.ready_seconds = time.perf_counter() - began
        if not line:
            raise RuntimeError(f"{command} ended with {self._child.wait()} before it served")
        found = _ADDRESS.search(line)
        assert found is not None, f"no address in {line!r}"
        self.address = found[0]
        self.port = int(found[1])

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds_of(self._child.pid)

    @property
    def resident_bytes(self) -> int:
        return resident_bytes_of(self._child.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()
        assert self._child.stdout is not None
        self._child.stdout.close()

    def kill(self) -> None:
        """Kill it like `kill -9`; what it has written stays in the page cache."""
        self._child.send_signal(signal.SIGKILL)
        self._child.wait()


@contextmanager
def broker(*options: str) -> Iterator[tuple[Server, Path]]:
    """Run a broker on an empty temporary directory; options are `key=value`."""
    with (
        tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory,
        broker_on(Path(directory), *options) as server,
    ):
        yield server, Path(directory)


def broker_on(directory: Path, *options: str) -> Server:
    """Start a broker on a given directory, as users do."""
    command = [sys.executable, "-m", "headwater", "start", "--listen", "127.0.0.1:0"]
    settings = [part for option in options for part in ("-o", option)]
    return Server([*command, "--data", str(directory), "--log-level", "warning", *settings])


@contextmanager
def bare_broker(log: Path | None = None) -> Iterator[Server]:
    """Run the bare broker on an empty file or on a given segment."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        path = Path(directory) / "bare.log" if log is None else log
        with Server([sys.executable, "-m", "bench.bare_broker", str(path)]) as server:
            yield server
