"""The sink in PySpark's interface: a writer for batch queries and one for streams.

Note: a task has committed its rows when `write` returns, because the Python data source API offers
a task no later moment for it. `commit` and `abort`, which run in the driver, have nothing to do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from headwater.client import Producer
from headwater.client.settings import shared_settings
from headwater.common.ids import TopicPartition
from headwater.spark.client_cache import cached_producer, cached_reader
from headwater.spark.formats.typed_values import written
from headwater.spark.sink.exactly_once import CommittedBatch, identity_of, write_exactly_once
from headwater.spark.sink.sink_options import Delivery, SinkOptions
from headwater.spark.sink.task_writer import write_at_least_once

TRANSACTION_TIMEOUT_MS: Final = str(15 * 60 * 1000)
"""The longest that brokers allow by default. Spark computes rows while a task writes them, so that
a transaction is open for as long as a join or an aggregation takes: with the default of a producer,
a minute, brokers would abort it, and each attempt of the task again."""


@dataclass
class RowsWritten(WriterCommitMessage):
    """What a task did."""

    partition: int
    rows: int


class TopicWriter(DataSourceArrowWriter):
    """A batch query's rows into topics."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    # PySpark's own class of Arrow writers takes other rows than its base, too.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return write_task(self._options, iterator)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A stream's rows into topics."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    # PySpark's own class of Arrow writers takes other rows than its base, too.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return write_task(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """See the module."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """See the module."""


def write_task(options: SinkOptions, rows: Iterator[pa.RecordBatch]) -> RowsWritten:
    """One task's rows."""
    context = TaskContext.get()
    assert context is not None, "a task runs in a worker of Spark"
    partition = context.partitionId()
    settings = dict(options.client)
    if options.formats:
        rows = written(rows, options.formats, options.targets)
    if options.delivery is Delivery.AT_LEAST_ONCE:
        with cached_producer(settings) as producer:
            return RowsWritten(partition, write_at_least_once(rows, options.topic, producer))
    # Not kept: taking over the transactional id is what fences a former attempt.
    identity = identity_of(options, partition, context.getLocalProperty)
    settings["transactional.id"] = identity.transactional_id(options.transactional_id_prefix)
    settings.setdefault("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    with Producer(settings) as producer:
        count = write_exactly_once(
            rows, options, identity, producer=producer, committed_batch=_committed_batch(options)
        )
        return RowsWritten(partition, count)


def _committed_batch(options: SinkOptions) -> CommittedBatch:
    # As the producer reaches them, but without what only a producer understands.
    brokers = shared_settings(options.client)

    def committed_batch(group_id: str, marker: TopicPartition) -> int | None:
        found = cached_reader(brokers).committed(group_id, [marker]).get(marker)
        return None if found is None else found.offset

    return committed_batch
