"""Headwater as a separate process with the same settings as the peer."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.peers.apache_kafka import COMMON_SETTINGS, NODE_ID
from tests.peers.processes import end, free_port, start_until


class HeadwaterBroker:
    """One broker in its own directory."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._settings = {**COMMON_SETTINGS, **(settings or {})}
        self.data = folder / "headwater-data"
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        self._log = folder / "headwater.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        program = Path(sys.executable).with_name("headwater")
        command = [str(program), "start", "--data", str(self.data), "--node-id", str(NODE_ID)]
        command += ["--listen", self.bootstrap_servers, "--log-level", "warning"]
        for name, value in self._settings.items():
            command += ["-o", f"{name}={value}"]
        self._process = start_until(
            command, lambda line: line.startswith("headwater ready"), self._log
        )
        return self

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
