"""A real ZooKeeper for a test: a child process on a free port, with a folder of its own.

What a reader would get wrong: after a restart it has the same port and the same data, and sessions
outlive it, since ZooKeeper writes them down.
"""

import re
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.model.failures import BrokerDidNotStart
from headwater.testing.embedded_broker import Child, remove_tree

_READY = re.compile(r"headwater zookeeper ready on ([^ ]+) \(pid (\d+)")


class EmbeddedZooKeeper:
    """Started by `with` or `start`, gone after `close` or with this process."""

    def __init__(self, *, tick_ms: int = 500, patience_s: float = 60) -> None:
        self._tick_ms = tick_ms
        self._patience_s = patience_s
        self._folder: Path | None = None
        self._remove_folder: Callable[[], object] | None = None
        self._child: Child | None = None
        self._address: str | None = None
        self._server_pid = 0

    @property
    def connect(self) -> str:
        """For zookeeper.connect. The same after a restart."""
        assert self._address is not None, "ZooKeeper was never started"
        return self._address

    @property
    def server_pid(self) -> int:
        """The process of the server itself."""
        return self._server_pid

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_running

    def start(self) -> Self:
        """Return when it serves; `BrokerDidNotStart` says why it does not."""
        assert not self.is_running, "ZooKeeper is running"
        folder = self._folder or self._make_folder()
        port = "0" if self._address is None else self._address.rpartition(":")[2]
        arguments = ["zookeeper", "--dir", str(folder / "data"), "--port", port]
        log_file = folder / "zookeeper.log"
        self._child = Child([*arguments, "--tick-time", str(self._tick_ms)], folder, log_file)
        weakref.finalize(self, Child.kill, self._child)
        try:
            line = self._child.ready_line(self._patience_s)
        except BrokerDidNotStart as failure:
            self._child.kill()
            said = log_file.read_text(encoding="utf-8", errors="replace")
            raise BrokerDidNotStart(f"{failure}; it says:\n{said}") from None
        match = _READY.match(line)
        assert match is not None, line
        self._address, self._server_pid = match[1], int(match[2])
        return self

    def stop(self) -> None:
        """End it in good order. Its folder stays."""
        if self._child is not None:
            self._child.stop(self._patience_s)

    def kill(self) -> None:
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

    def _make_folder(self) -> Path:
        import os
        import tempfile

        self._folder = Path(tempfile.mkdtemp(prefix="headwater-zookeeper-"))
        self._remove_folder = weakref.finalize(self, remove_tree, self._folder, os.getpid())
        return self._folder
