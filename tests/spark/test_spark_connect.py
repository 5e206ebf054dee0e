"""A program on a Spark Connect server, which has its own JVM, settings and workers."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, send
from tests.spark.standalone import QUICK_JAVA, await_line

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PROGRAM = Path(__file__).with_name("copy_program.py")


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The URL of a server whose workers run the tests' Python."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    java = find_java(os.environ)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.python.daemon.module": "headwater.spark.python_daemon",
        "spark.ui.enabled": "false",
    }
    words = ["--master", "local[2]", "--driver-java-options", QUICK_JAVA]
    words += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    log = folder / "server.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [submit, *words, "--class", _SERVER, "spark-internal"],
            env=environment,
            stdout=file,
            stderr=file,
        )
    try:
        await_line(server, log, r"(Spark Connect server started)")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@pytest.mark.timeout(900)
def test_a_program_runs_through_spark_connect(spark_broker: EmbeddedBroker, tmp_path: Path) -> None:
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    make(spark_broker, "connect-in", "connect-out")
    send(spark_broker, "connect-in", [(str(at), f"row {at}") for at in range(20)])
    topics = (spark_broker.bootstrap_servers, "connect-in", "connect-out")
    with connect_server(tmp_path) as url:
        done = subprocess.run(
            [sys.executable, "-P", _PROGRAM, url, *topics, str(tmp_path / "checkpoint")],
            capture_output=True,
            text=True,
            check=False,
        )
        log = (tmp_path / "server.log").read_text()
        assert (done.returncode, done.stdout) == (0, "copied\n"), done.stderr + log
    found = sorted(each.value or b"" for each in read(spark_broker, "connect-out"))
    assert found == sorted(f"ROW {at}".encode() for at in range(20))
