"""Has Spark run the tasks of a mirror."""

from typing import TYPE_CHECKING

# It has no types, and Spark lets its errors through.
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from headwater.mirror.copy_task import CopyTask, TasksFailed, run_task
from headwater.mirror.task_assignment import Copied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkTasks:
    """Runs tasks in a session's workers, each as often as the session tries a task again."""

    def __init__(self, spark: "SparkSession") -> None:
        self._context = spark.sparkContext

    def __call__(self, tasks: list[CopyTask]) -> list[Copied]:
        try:
            # A partition of Spark's for each task, or some would wait for others.
            copied = self._context.parallelize(tasks, len(tasks)).map(run_task).collect()
        except (PySparkException, Py4JError) as error:
            raise TasksFailed(_reason(str(error))) from error
        return [each for of_task in copied for each in of_task]


def _reason(text: str) -> str:
    """The line of a worker's stack that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("headwater.")]
    return told[-1] if told else (lines[-1] if lines else "Spark gave no reason")
