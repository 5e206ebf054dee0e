"""Run a Python worker of Spark that connects to the JVM before it imports pyspark.

    python -m headwater.spark.early_worker pyspark.sql.streaming.python_streaming_source_runner

Spark starts some workers without a daemon, such as the reader of a stream in the driver. It waits
ten seconds for their connection, and has no setting for it. On a busy machine the imports alone can
take longer: "Python worker failed to connect back". Here the connection comes first.

Note: this module must import nothing but a few modules of the standard library.
"""

import os
import runpy
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, cast

MODULE: Final = "headwater.spark.early_worker"

_PATH: Final = "PYTHON_WORKER_FACTORY_SOCK_PATH"
_SECRET: Final = "PYTHON_WORKER_FACTORY_SECRET"
_BUFFER_BYTES: Final = 65_536


def main(arguments: list[str]) -> None:
    module = arguments[0]
    file = connect(os.environ)
    from headwater.spark.python_daemon import use_installed_pyspark

    use_installed_pyspark()
    if file is not None:
        _hand_over(file)
    sys.argv = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def connect(environment: Mapping[str, str]) -> BinaryIO | None:
    """Connect to the JVM and send the process id, before the worker's imports.

    None if Spark does not use a Unix domain socket: then there is a secret to be exchanged, which
    is left to the worker.
    """
    path = environment.get(_PATH)
    if path is None or _SECRET in environment:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    buffer_bytes = int(environment.get("SPARK_BUFFER_SIZE", _BUFFER_BYTES))
    file = cast(BinaryIO, connection.makefile("rwb", buffer_bytes))
    file.write(struct.pack("!i", os.getpid()))
    file.flush()
    return file


def _hand_over(file: BinaryIO) -> None:
    """Make the worker use the existing connection instead of creating one.

    A worker whose JVM has closed the connection ends without a traceback: the query was stopped.
    """
    from pyspark import worker_util

    @contextmanager
    def connected(timeout: Any = None) -> Iterator[BinaryIO]:  # noqa: ARG001
        with suppress(BrokenPipeError, ConnectionResetError), file:
            yield file

    setattr(worker_util, "get_sock_file_to_executor", connected)  # noqa: B010


if __name__ == "__main__":
    main(sys.argv[1:])
