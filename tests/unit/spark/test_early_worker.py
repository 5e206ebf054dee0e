"""A worker that connects to the JVM before its imports."""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.spark.early_worker import connect

# Imports take long, and the connection must not wait for them.
_SLOW_WORKER = """
import sys
from pyspark.worker_util import get_sock_file_to_executor

sys.stdin.readline()
with get_sock_file_to_executor(timeout=None) as file:
    file.write(b"served")
    file.flush()
"""


@contextmanager
def _worker(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A worker that has connected and waits for a line before it goes on."""
    (tmp_path / "slow_worker.py").write_text(_SLOW_WORKER)
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        environment = {
            **os.environ,
            "PYTHON_WORKER_FACTORY_SOCK_PATH": str(path),
            "PYTHONPATH": str(tmp_path),
        }
        command = [sys.executable, "-m", "headwater.spark.early_worker", "slow_worker"]
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        ) as worker:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection:
                yield worker, connection


def test_the_connection_comes_before_the_imports(tmp_path: Path) -> None:
    with _worker(tmp_path) as (worker, connection), connection.makefile("rb") as file:
        assert struct.unpack("!i", file.read(4)) == (worker.pid,)
        # Only now may the worker go on.
        worker.communicate(b"\n", timeout=60)
        assert file.read() == b"served"
    assert worker.returncode == 0


def test_a_closed_connection_is_no_traceback(tmp_path: Path) -> None:
    with _worker(tmp_path) as (worker, connection):
        assert connection.recv(4, socket.MSG_WAITALL) == struct.pack("!i", worker.pid)
        connection.close()
        _, errors = worker.communicate(b"\n", timeout=60)
    assert (worker.returncode, errors) == (0, b"")


def test_a_secret_is_left_to_the_worker() -> None:
    assert connect({"PYTHON_WORKER_FACTORY_PORT": "1"}) is None
    assert (
        connect({"PYTHON_WORKER_FACTORY_SOCK_PATH": "/s", "PYTHON_WORKER_FACTORY_SECRET": "x"})
        is None
    )


def test_nothing_heavy_is_imported_before_the_connection() -> None:
    program = """
import sys
import headwater.spark.early_worker
heavy = [name for name in sys.modules if name.startswith(("pyspark", "numpy", "pyarrow"))]
ours = [name for name in sys.modules if name.startswith("headwater")]
print(heavy, sorted(ours))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    ours = ["headwater", "headwater.spark", "headwater.spark.early_worker"]
    assert done.stdout == f"[] {ours}\n"
