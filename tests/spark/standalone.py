"""A standalone Spark cluster on this machine: one master and two workers, from pyspark's jars.

Each is a separate process with an environment that does not contain the tests' Python: executors
must get everything that they need from the driver's settings.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import pyspark

from headwater.process.java import find_java

DEADLINE_S: Final = 240
QUICK_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For JVMs that live for a test: quick to start, and with few threads."""
_LOOK_EVERY_S: Final = 0.2
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_STARTED: Final = r"Starting Spark master at (spark://\S+)"
_REGISTERED: Final = "(Successfully registered with master)"
_SPARK_HOME: Final = Path(pyspark.__file__).parent


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The URL of its master. Work directories and logs are in `folder`."""
    with Standalone(folder, workers) as cluster:
        yield cluster.url


class Standalone:
    """A cluster whose workers can be killed, and are started again by `revive`."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._count = workers
        self._stack = ExitStack()
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._started = 0
        self.url = ""

    def __enter__(self) -> Self:
        log = self._folder / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        try:
            master = self._stack.enter_context(_process(_MASTER, arguments, log))
            self.url = await_line(master, log, _STARTED)
            for number in range(self._count):
                self._start(number)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def worker_pids(self) -> list[int]:
        return [each.pid for each in self._workers.values()]

    def revive(self) -> int:
        """Start workers that have died; the answer is how many."""
        dead = [number for number, each in self._workers.items() if each.poll() is not None]
        for number in dead:
            self._start(number)
        return len(dead)

    def _start(self, number: int) -> None:
        self._started += 1
        log = self._folder / f"worker-{self._started}.log"
        work = str(self._folder / f"work-{number}")
        arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"]
        arguments += ["--memory", "1g", "--work-dir", work, self.url]
        worker = self._stack.enter_context(_process(_WORKER, arguments, log))
        await_line(worker, log, _REGISTERED)
        self._workers[number] = worker


def executor_logs(folder: Path) -> str:
    """Output of the executors, for failure reports."""
    return "\n".join(each.read_text() for each in sorted(folder.glob("work-*/*/*/stderr")))


@contextmanager
def _process(name: str, arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    java = find_java(os.environ)
    options = ["-Xmx256m", *QUICK_JAVA.split()]
    environment = {
        "HOME": os.environ.get("HOME", "/"),
        "JAVA_HOME": str(java.home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "SPARK_HOME": str(_SPARK_HOME),
        # Set by the scripts of a Spark distribution, which pip does not install.
        "SPARK_SCALA_VERSION": "2.13",
    }
    command = [str(java.home / "bin" / "java"), *options, "-cp", f"{_SPARK_HOME}/jars/*"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, name, *arguments], env=environment, stdout=file, stderr=file
        )
    try:
        yield process
    finally:
        # Nothing happens if it is dead already.
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_line(process: subprocess.Popen[bytes], log: Path, line: str) -> str:
    """What a process prints as the group of an expression. Fails if it ends before."""
    until_s = time.monotonic() + DEADLINE_S
    while True:
        text = log.read_text()
        found = re.search(line, text)
        if found is not None:
            return found[1]
        assert time.monotonic() < until_s, text
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY_S)
        assert process.returncode is None, text
