"""A real broker for a test: a child process on a free port, with a folder of its own.

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

What a reader would get wrong: it is not a fake, and not in this process. So it can be killed and
started again on the same port and folder, and it is gone when this process is, however that ends:
see `headwater.testing.child`.
"""

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from headwater.model.failures import BrokerDidNotStart
from headwater.model.setting_kinds import Value, format_value

_READY = re.compile(r"headwater ready on ([^ ,]+)")

# What is of no use in a test: a new group waits three seconds for more members.
_FOR_TESTS: Mapping[str, Value] = {"group.initial.rebalance.delay.ms": 0}


class EmbeddedBroker:
    """Started by `with` or `start`, gone after `close` or with this process."""

    def __init__(
        self,
        settings: Mapping[str, Value] | None = None,
        *,
        data_directory: Path | str | None = None,
        patience_s: float = 30,
    ) -> None:
        """Settings have Kafka's names. A data directory that is given is kept, else it is removed.

        `patience_s` bounds how long a start and a clean stop may take.
        """
        self._settings = {**_FOR_TESTS, **(settings or {})}
        self._given_directory = None if data_directory is None else Path(data_directory)
        self._patience_s = patience_s
        self._folder: Path | None = None
        self._remove_folder: Callable[[], object] | None = None
        self._child: Child | None = None
        self._address: str | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it, as host:port. The same after a restart."""
        assert self._address is not None, "the broker was never started"
        return self._address

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def data_directory(self) -> Path:
        if self._given_directory is not None:
            return self._given_directory
        assert self._folder is not None, "the broker was never started"
        return self._folder / "data"

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_running

    @property
    def pid(self) -> int:
        assert self._child is not None, "the broker is not running"
        return self._child.pid

    @property
    def log_text(self) -> str:
        """What it has logged since the first start, and complained of."""
        if self._folder is None:
            return ""
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    def start(self) -> Self:
        """Return when it serves. `BrokerDidNotStart` has its log if it does not."""
        assert not self.is_running, "the broker is running"
        folder = self._folder or self._make_folder()
        self._child = Child(self._arguments(), folder, self._log_file)
        weakref.finalize(self, Child.kill, self._child)
        try:
            line = self._child.ready_line(self._patience_s)
        except BrokerDidNotStart as failure:
            self._child.kill()
            raise BrokerDidNotStart(f"{failure}; it says:\n{self.log_text}") from None
        if self._address is None:
            self._address = _address_in(line)
        return self

    def stop(self) -> None:
        """Stop it as SIGTERM does: everything is on disk. Its folder stays."""
        if self._child is not None:
            self._child.stop(self._patience_s)

    def kill(self) -> None:
        """Let it die as by a crash. Its folder stays."""
        if self._child is not None:
            self._child.kill()

    def restart(self) -> None:
        """Start it again, on the same port and folder; stop it first if it runs."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End it and remove its folder. May be called again."""
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

    @property
    def _log_file(self) -> Path:
        assert self._folder is not None
        return self._folder / "broker.log"

    def _make_folder(self) -> Path:
        # Loaded only here: the child loads this module too, and has no use for it.
        import tempfile

        self._folder = Path(tempfile.mkdtemp(prefix="headwater-"))
        self._remove_folder = weakref.finalize(self, remove_tree, self._folder, os.getpid())
        return self._folder

    def _arguments(self) -> list[str]:
        arguments = ["start", "--data", str(self.data_directory)]
        settings = dict(self._settings)
        if "listeners" not in settings:
            arguments += ["--listen", self._address or "127.0.0.1:0"]
        for name, value in settings.items():
            arguments += ["-o", f"{name}={format_value(value)}"]
        return arguments


class Child:
    """One run of the process."""

    def __init__(self, arguments: list[str], folder: Path, log_file: Path) -> None:
        self._owner_pid = os.getpid()
        command = [sys.executable, "-P", "-m", "headwater.testing.child"]
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(os.getpid()), str(folder), *arguments],
                # Held open for as long as we live.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C is for the tests, which then end the broker.
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

    def ready_line(self, patience_s: float) -> str:
        try:
            line = self._lines.get(timeout=patience_s)
        except queue.Empty:
            raise BrokerDidNotStart(f"the broker is not ready after {patience_s} s") from None
        if not line:
            code = self._process.wait()
            raise BrokerDidNotStart(f"the broker ended with exit code {code}")
        return line

    def stop(self, patience_s: float) -> None:
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        self._tidy()

    def kill(self) -> None:
        # A process that was forked from the owner has a copy of this object, but not the child; and
        # the copy of the pipe is locked for ever, by a reader that was not forked along.
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
    """Hand over what comes, and an empty text at the end, so that the child never waits for us."""
    for line in output:
        lines.put(line)
    lines.put("")


def _address_in(line: str) -> str:
    match = _READY.match(line)
    if match is None:
        raise BrokerDidNotStart(f"the broker does not say where it listens, but {line!r}")
    # A star stands for all interfaces.
    return match[1].replace("*", "127.0.0.1")


def remove_tree(folder: Path, owner_pid: int) -> None:
    # A process that was forked from the owner has a copy of the object, but not of the folder.
    if os.getpid() == owner_pid:
        shutil.rmtree(folder, ignore_errors=True)
