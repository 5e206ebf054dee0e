"""Run one Spark query from start to end, as a command does."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from headwater.common.exceptions import HeadwaterError
from headwater.network.system_clock import SystemClock
from headwater.pipelines.run.failure_reason import reason_of, without_class
from headwater.process.stop_signals import StopSignals, aside
from headwater.spark.graceful_stop import stop_gracefully
from headwater.spark.java_process import LOG_LEVEL
from headwater.spark.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Start = Callable[["SparkSession"], "StreamingQuery | list[StreamingQuery]"]

_MALFORMED_RECORD: Final = "MALFORMED_RECORD_IN_PARSING"
_CLOCK: Final = SystemClock()
# Fewer than the 100 batches whose progress Spark keeps complete within this time.
_PROGRESS_INTERVAL_S: Final = 1


class JobFailed(HeadwaterError):
    """The query has ended with an error."""


def run_job(start: Start, master: str | None) -> int:
    """Run queries until they end or a stop signal arrives.

    Return the number of rows of the first one; the others only watch over its errors.
    """
    with StopSignals() as signals:
        return aside(lambda: _run(start, master, signals))


def _run(start: Start, master: str | None, signals: StopSignals) -> int:
    # Failures are reported in one line, without Java's stack traces.
    spark = session(master, {LOG_LEVEL: "FATAL"}, app_name="headwater connect")
    moved = MovedRows()
    try:
        if signals.is_stop_requested:
            return 0
        started = start(spark)
        queries = started if isinstance(started, list) else [started]
        first, *others = queries
        while not first.awaitTermination(_PROGRESS_INTERVAL_S):
            moved.count(first.recentProgress)
            _raise_failed(others)
            if signals.is_stop_requested:
                stop_gracefully(queries, steady_ms=_CLOCK.steady_ms)
        moved.count(first.recentProgress)
        for each in others:
            while not each.awaitTermination(_PROGRESS_INTERVAL_S):
                if signals.is_stop_requested:
                    stop_gracefully(others, steady_ms=_CLOCK.steady_ms)
    except PySparkException as error:
        if _MALFORMED_RECORD in str(error):
            reason = "a record's value is not a JSON object with the columns of the schema"
            raise JobFailed(reason) from error
        raise JobFailed(without_class(reason_of(error))) from error
    finally:
        spark.stop()
    return moved.rows


def _raise_failed(queries: "Iterable[StreamingQuery]") -> None:
    for each in queries:
        if not each.isActive and (error := each.exception()) is not None:
            raise error


@dataclass(slots=True)
class MovedRows:
    """Count the rows of all batches, of which Spark only keeps the recent ones."""

    rows: int = 0
    batch_id: int = -1

    def count(self, recent: "Iterable[Mapping[str, Any]]") -> None:
        """Count batches that were not counted before.

        Note: Spark reports a trigger without rows under the id of the next batch.
        """
        for each in recent:
            rows, batch_id = int(each["numInputRows"]), int(each["batchId"])
            if rows and batch_id > self.batch_id:
                self.rows += rows
                self.batch_id = batch_id
