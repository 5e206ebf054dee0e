"""One query of Spark's from its start to its end, as a command runs it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from headwater.model.failures import HeadwaterError
from headwater.pipeline.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class JobFailed(HeadwaterError):
    """A query has ended with an error."""


def run_job(start: "Callable[[SparkSession], StreamingQuery]", master: str | None) -> int:
    """Run a query until it has ended, or somebody has had enough; how many rows it has moved."""
    spark = session(master, {"spark.log.level": "ERROR"}, app_name="headwater connect")
    try:
        query = start(spark)
        with _stopping(query):
            query.awaitTermination()
        return sum(int(each["numInputRows"]) for each in query.recentProgress)
    except PySparkException as error:
        raise JobFailed(_reason(str(error))) from error
    finally:
        spark.stop()


@contextmanager
def _stopping(query: "StreamingQuery") -> Iterator[None]:
    """Ctrl-C and SIGTERM end the query."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: query.stop()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _reason(text: str) -> str:
    """The line of a worker's stack that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("headwater.")]
    return told[-1] if told else (lines[0] if lines else "Spark gave no reason")
