"""A real ZooKeeper for a test: a child process on a free port, with a folder of its own.

What a reader would get wrong: after a restart it has the same port and the same data, and sessions
outlive it, since ZooKeeper writes them down.
"""

import re
from pathlib import Path

from headwater.testing.embedded_process import EmbeddedProcess

_READY = re.compile(r"headwater zookeeper ready on ([^ ]+) \(pid (\d+)")


class EmbeddedZooKeeper(EmbeddedProcess):
    """Started by `with` or `start`, gone after `close` or with this process."""

    def __init__(self, *, tick_ms: int = 500, patience_s: float = 60) -> None:
        super().__init__(
            name="ZooKeeper",
            folder_prefix="headwater-zookeeper-",
            log_name="zookeeper.log",
            patience_s=patience_s,
        )
        self._tick_ms = tick_ms
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

    def _arguments(self, folder: Path) -> list[str]:
        port = "0" if self._address is None else self._address.rpartition(":")[2]
        where = ["--dir", str(folder / "data"), "--port", port]
        return ["zookeeper", *where, "--tick-time", str(self._tick_ms)]

    def _serves(self, line: str) -> None:
        match = _READY.match(line)
        assert match is not None, line
        self._address, self._server_pid = match[1], int(match[2])
