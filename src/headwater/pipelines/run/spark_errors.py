"""Turn Spark's exceptions in the driver into `SparkFailed` with one line.

Note: not all of them are `PySparkException`s. Other Java exceptions arrive as py4j's, and so does
the loss of the JVM.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.common.exceptions import HeadwaterError
from headwater.pipelines.run.failure_reason import reason_of


class SparkFailed(HeadwaterError):
    """Spark itself failed, not a query."""


def spark_errors() -> tuple[type[Exception], ...]:
    from pyspark.errors import PySparkException

    # py4j has no types.
    found: type[Exception] = importlib.import_module("py4j.protocol").Py4JError
    return PySparkException, found


@contextmanager
def in_one_line() -> Iterator[None]:
    """Raise `SparkFailed` instead of Spark's exceptions."""
    try:
        yield
    except spark_errors() as error:
        raise SparkFailed(reason_of(error)) from error
