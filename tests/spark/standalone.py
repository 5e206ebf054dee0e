"""A standalone Spark cluster on this machine: one master and two workers, from pyspark's jars.

Each is a process of its own, in an environment that knows nothing of the tests' Python: what
executors need must come from the driver's settings.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark

from headwater.process.java import find_java

DEADLINE_S: Final = 240
_LOOK_EVERY_S: Final = 0.2
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"
_SPARK_HOME: Final = Path(pyspark.__file__).parent


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The URL of its master. Work folders and logs are in `folder`."""
    with ExitStack() as stack:
        log = folder / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(_process(_MASTER, arguments, log))
        url = _await(master, log, _STARTED)
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            work = str(folder / f"work-{number}")
            arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"]
            arguments += ["--memory", "1g", "--work-dir", work, url]
            worker = stack.enter_context(_process(_WORKER, arguments, log))
            _await(worker, log, re.compile(f"({_REGISTERED})"))
        yield url


def executor_logs(folder: Path) -> str:
    """What executors have printed, for a failure's report."""
    return "\n".join(each.read_text() for each in sorted(folder.glob("work-*/*/*/stderr")))


@contextmanager
def _process(name: str, arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    java = find_java(os.environ)
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
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
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], log: Path, line: re.Pattern[str]) -> str:
    until_s = time.monotonic() + DEADLINE_S
    while True:
        text = log.read_text()
        found = line.search(text)
        if found is not None:
            return found[1]
        assert time.monotonic() < until_s, text
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY_S)
        assert process.returncode is None, text
