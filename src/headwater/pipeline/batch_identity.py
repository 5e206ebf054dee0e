"""Which part of which batch of which query a task writes: what makes a repetition recognisable.

What a reader would get wrong: the number of an attempt is no part of it. Attempts of one task are
what must be taken for the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.pipeline.failures import OptionRefused
from headwater.pipeline.sink_options import ASK_SPARK, SinkOptions

# Under these names Spark tells a task what it is part of; its own `foreach` relies on them.
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchIdentity:
    """A query keeps its id over restarts, a batch keeps its number when it is repeated."""

    query_id: str
    batch_id: int
    partition: int

    def transactional_id(self, prefix: str) -> str:
        """The same for every attempt, and for every batch: a later one fences an earlier one."""
        return f"{prefix}-{self.query_id}-{self.partition}"

    def group_id(self, prefix: str) -> str:
        """The group under whose name finished batches of this part are noted."""
        return self.transactional_id(prefix)


def identity_of(
    options: SinkOptions, partition: int, local_property: Callable[[str], str | None]
) -> BatchIdentity:
    """What the options say, else what Spark has told the task."""
    query_id = options.query_id
    if query_id is None or query_id == ASK_SPARK:
        query_id = local_property(_QUERY_ID)
    batch_id = options.batch_id
    if batch_id is None:
        told = local_property(_BATCH_ID)
        batch_id = None if told is None else int(told)
    if query_id is None or batch_id is None:
        raise OptionRefused("exactly-once: Spark does not tell which batch of which query this is")
    return BatchIdentity(query_id=query_id, batch_id=batch_id, partition=partition)
