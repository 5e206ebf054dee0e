"""Run a mirror's tasks on Spark."""

from typing import TYPE_CHECKING

# py4j has no type hints, and PySpark raises its errors directly.
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from headwater.mirror.copy_task import CopyTask, TasksFailed, run_task
from headwater.mirror.task_assignment import Copied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkTasks:
    """Run tasks in Spark workers, with the session's retries."""

    def __init__(self, spark: "SparkSession") -> None:
        self._context = spark.sparkContext

    def __call__(self, tasks: list[CopyTask]) -> list[Copied]:
        try:
            # One Spark partition per task, so that no task waits for another.
            copied = self._context.parallelize(tasks, len(tasks)).map(run_task).collect()
        except (PySparkException, Py4JError) as error:
            raise TasksFailed(_reason(str(error))) from error
        return [each for of_task in copied for each in of_task]


def _reason(text: str) -> str:
    """The line of a worker's stack trace with the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("headwater.")]
    return errors[-1] if errors else (lines[-1] if lines else "Spark reported no reason")
