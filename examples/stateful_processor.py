"""A stateful processor: an alarm at the third failed login of a user in a row.

    headwater pipeline run examples/stateful_processor.py

Spark keeps the state of each user in the checkpoint, and restores it after a restart.

Note: rows of one user arrive in the order of the batch, which is the order of their partition if
they have the same key.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from headwater.pipelines import pipeline

LIMIT = 3


class FailedLogins(StatefulProcessor):
    """Counts the failures of a user since the last login that worked."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._failures = handle.getValueState("failures", "count int")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        stored = self._failures.get()
        count = 0 if stored is None else stored[0]
        for row in sorted(rows, key=lambda each: each.number):
            count = 0 if row.worked else count + 1
            if count == LIMIT:
                yield Row(user=key[0], number=row.number)
        self._failures.update((count,))

    def close(self) -> None:
        """There is nothing to let go of."""


@pipeline(
    name="login-alarms",
    bootstrap="127.0.0.1:9092",
    checkpoint="./checkpoints",
    sources={
        "logins": {
            "subscribe": "logins",
            "startingOffsets": "earliest",
            "decode": {"value": {"json": "user string, number bigint, worked boolean"}},
        }
    },
    sinks=[
        {
            "topic": "login-alarms",
            "create": {"partitions": 2},
            "key": "user",
            "mode": "update",
            "delivery": "exactly-once",
        }
    ],
)
def alarms(logins: DataFrame) -> DataFrame:
    return logins.groupBy("user").transformWithState(
        statefulProcessor=FailedLogins(),
        outputStructType="user string, number bigint",
        outputMode="Update",
        timeMode="None",
    )
