"""Identify a task's part of a batch, so that a repetition is recognized.

Note: the attempt number is not part of the identity. All attempts of a task must have the same one.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.client.errors import KafkaError
from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.sink_options import ASK_SPARK, SinkOptions
from headwater.spark.sink.task_writer import Rows, TaskProducer, write_at_least_once

_log = logging.getLogger(__name__)

# Local properties with a task's query and batch; Spark's own `foreach` relies on them.
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchIdentity:
    """A part of a batch. Query id and batch number survive restarts."""

    query_id: str
    batch_id: int
    partition: int

    def transactional_id(self, prefix: str) -> str:
        """Return the transactional id, the same for every attempt and batch, for fencing."""
        return f"{prefix}-{self.query_id}-{self.partition}"

    def group_id(self, prefix: str) -> str:
        """Return the group whose offset marks finished batches of this partition."""
        return self.transactional_id(prefix)


def identity_of(
    options: SinkOptions, partition: int, local_property: Callable[[str], str | None]
) -> BatchIdentity:
    """Return the identity from the options, or else from the task's local properties."""
    query_id = options.query_id
    if query_id is None or query_id == ASK_SPARK:
        query_id = local_property(_QUERY_ID)
    batch_id = options.batch_id
    if batch_id is None:
        text = local_property(_BATCH_ID)
        batch_id = None if text is None else int(text)
    if query_id is None or batch_id is None:
        raise InvalidOption("exactly-once: Spark did not provide the query id and batch id")
    return BatchIdentity(query_id=query_id, batch_id=batch_id, partition=partition)


CommittedBatch = Callable[[str, TopicPartition], int | None]


def write_exactly_once(
    rows: Rows,
    options: SinkOptions,
    identity: BatchIdentity,
    *,
    producer: TaskProducer,
    committed_batch: CommittedBatch,
) -> int:
    """Send all rows unless they were sent before; return the number of sent rows.

    `committed_batch` returns the offset that a group has committed for a partition: the first batch
    that is not written.
    """
    assert options.marker_topic is not None, "refused when the options were read"
    marker = TopicPartition(options.marker_topic, 0)
    group_id = identity.group_id(options.transactional_id_prefix)
    producer.init_transactions()
    next_batch = committed_batch(group_id, marker)
    if next_batch is not None and next_batch > identity.batch_id:
        # Rare, and useful to operators after a failure.
        _log.warning(
            "Skipped a part of a batch that is written already: batch=%d transactional_id=%s",
            identity.batch_id,
            group_id,
        )
        _drain(rows)
        return 0
    producer.begin_transaction()
    try:
        count = write_at_least_once(rows, options.topic, producer)
        producer.send_offsets_to_transaction({marker: identity.batch_id + 1}, group_id)
    except BaseException:
        _abort(producer)
        raise
    producer.commit_transaction()
    return count


def _drain(rows: Rows) -> None:
    """Read all input; Spark fails a task that does not."""
    for _ in rows:
        pass


def _abort(producer: TaskProducer) -> None:
    try:
        producer.abort_transaction()
    except KafkaError:
        # Fenced, or unreachable: InitProducerId of the next attempt aborts the transaction.
        return
