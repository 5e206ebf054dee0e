"""Run ZooKeeper servers as child processes, for laptops and tests.

Note: these are real servers, but not a production setup. They listen on one machine and end with
the process that started them.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headwater.common.exceptions import ServerUnavailable
from headwater.network.free_ports import free_ports
from headwater.process import die_with_parent, zookeeper_jars
from headwater.process.java import find_java
from headwater.process.private_files import (
    UMASK,
    make_private,
    open_private,
    write_private,
)

TICK_MS: Final = 500
"""ZooKeeper's tickTime. The minimum session timeout is two ticks."""

_LONGEST_SESSION_MS: Final = 60_000
# Files of a server; `version-2` has its snapshots and transaction logs.
_OWN_NAMES: Final = ("zoo.cfg", "myid", "server.log", "zookeeper_server.pid", "version-2")
_LOOK_S: Final = 0.05
_PROBE_S: Final = 2.0
_END_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """Directory and ports of one server of an ensemble."""

    folder: Path
    host: str
    port: int
    # Ports between the servers of an ensemble; a single server needs neither.
    peer_port: int = 0
    election_port: int = 0

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def planned(folder: Path, host: str, port: int, count: int) -> list[ServerPlan]:
    """Plan an ensemble of `count` servers on ports from `port` on; 0 for free ports."""
    ports = free_ports(host, count) if port == 0 else range(port, port + count)
    if count == 1:
        return [ServerPlan(folder=folder, host=host, port=ports[0])]
    # Chosen at every start, because all servers are started together.
    private = free_ports(host, 2 * count)
    return [
        ServerPlan(
            folder=folder / str(number),
            host=host,
            port=each,
            peer_port=private.pop(),
            election_port=private.pop(),
        )
        for number, each in enumerate(ports, 1)
    ]


def config_text(plans: Sequence[ServerPlan], place: int, *, tick_ms: int = TICK_MS) -> str:
    """Return the zoo.cfg of the server at `place`."""
    plan = plans[place]
    lines = [
        f"tickTime={tick_ms}",
        f"dataDir={plan.folder}",
        f"clientPort={plan.port}",
        f"clientPortAddress={plan.host}",
        f"maxSessionTimeout={_LONGEST_SESSION_MS}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr,ruok,mntr",
        "autopurge.purgeInterval=1",
        "autopurge.snapRetainCount=3",
        "initLimit=20",
        "syncLimit=10",
    ]
    if len(plans) > 1:
        lines += [
            f"server.{number}={each.host}:{each.peer_port}:{each.election_port}"
            for number, each in enumerate(plans, 1)
        ]
    return "\n".join(lines) + "\n"


class Server:
    """Process of one ZooKeeper server."""

    def __init__(self, plans: Sequence[ServerPlan], place: int, *, tick_ms: int = TICK_MS) -> None:
        """Start the server; raise `ServerUnavailable` without Java or the server's jars."""
        self.plan = plans[place]
        folder = self.plan.folder
        command = [
            str(find_java(os.environ, needed_by="ZooKeeper").executable),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            "-Dzookeeper.admin.enableServer=false",
            "-cp",
            zookeeper_jars.find_class_path(),
            zookeeper_jars.MAIN_CLASS,
            str(folder / "zoo.cfg"),
        ]
        make_private(folder, names=_OWN_NAMES)
        write_private(folder / "zoo.cfg", config_text(plans, place, tick_ms=tick_ms))
        write_private(folder / "myid", f"{place + 1}\n")
        self._log_file = folder / "server.log"
        with open_private(self._log_file) as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                umask=UMASK,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def ready(self) -> None:
        """Wait until the server is ready; raise `ServerUnavailable` if it exits."""
        while not await _is_ready(self.plan.host, self.plan.port):
            if not self.is_running:
                raise ServerUnavailable(
                    f"ZooKeeper exited with code {self._process.returncode}; "
                    f"last lines of its log: {self._last_lines()}"
                )
            await asyncio.sleep(_LOOK_S)

    def stop(self) -> None:
        """Terminate the server, and kill it if that takes too long."""
        if self.is_running:
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def _last_lines(self) -> str:
        return last_lines(self._log_file.read_text(encoding="utf-8", errors="replace"))


def last_lines(log: str) -> str:
    """The end of a server's log on one line, without the frames of stack traces."""
    written = [line for line in log.split("\n") if line.strip() and not line.startswith("\t")]
    return " / ".join(written[-3:]) or "nothing"


async def _is_ready(host: str, port: int) -> bool:
    """Return whether the server reports a role; without an ensemble it has none."""
    try:
        async with asyncio.timeout(_PROBE_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"srvr")
                return b"Mode:" in await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
