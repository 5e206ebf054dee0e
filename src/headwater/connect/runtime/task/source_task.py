"""Copy a source's rows to topics, exactly once, without Spark.

The records of a batch and the position after it are one transaction, as in Kafka Connect with
exactly-once support for sources (KIP-618). A task that starts fences the one before it, and reads
the position that was committed last.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headwater.client import Admin, NewTopic
from headwater.connect.connector import Position, Source
from headwater.connect.import_export import check_key
from headwater.connect.runtime.connector_config import ConnectorConfig
from headwater.connect.runtime.task.json_rows import write_rows
from headwater.connect.runtime.task.task_offsets import TaskOffsets
from headwater.connect.runtime.task.task_setup import (
    STARTED,
    TOPIC_USED,
    TaskReport,
    TaskSetup,
    source_partition,
)
from headwater.records.arrow_values import text
from headwater.spark.formats.avro.avro_options import AvroOptions

if TYPE_CHECKING:
    from headwater.connect.runtime.task.avro_rows import AvroRows

_RECORD_COLUMNS: Final = ("key", "value", "headers")


def run_source_task(
    setup: TaskSetup,
    config: ConnectorConfig,
    *,
    report: Callable[[TaskReport], None],
    stop: threading.Event,
) -> None:
    """Copy batches until `stop` is set."""
    source = config.open_source()
    try:
        source.check()
        _create_topics(setup, config, source)
        partition = source_partition(config.plugin.name)
        offsets = TaskOffsets(setup, partition, config.producer_overrides)
        with closing(offsets), closing(_SourceTask(config, source, offsets, report)) as task:
            position = offsets.read()
            report(TaskReport(STARTED))
            while not stop.is_set():
                source.commit(position)
                end = source.latest(position)
                if end == position:
                    stop.wait(config.poll_interval_ms / 1000)
                    continue
                task.copy(position, end)
                position = end
    finally:
        source.close()


class _SourceTask:
    def __init__(
        self,
        config: ConnectorConfig,
        source: Source,
        offsets: TaskOffsets,
        report: Callable[[TaskReport], None],
    ) -> None:
        self._config = config
        self._source = source
        self._offsets = offsets
        self._report = report
        self._topics: dict[str, None] = {}
        self._avro = None if config.avro is None else _avro_rows(config.avro)

    def close(self) -> None:
        if self._avro is not None:
            self._avro.close()

    def copy(self, start: Position, end: Position) -> None:
        """Write what is between two positions, and the second one, in a transaction."""
        # Reported again with each batch: the worker's list may have been reset.
        self._topics.clear()
        producer = self._offsets.producer
        producer.begin_transaction()
        for split in self._source.splits(start, end):
            for batch in self._source.read(split):
                self._send(batch)
        # Last, so that the offset topic is in the transaction for a moment only.
        self._offsets.send(end)
        producer.commit_transaction()

    def _send(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if not self._source.writes_records:
            check_key(self._config.key, batch.schema.names)
            topic, key = self._config.topic, self._config.key
            if self._avro is None:
                self._send_to(topic, write_rows(batch, key))
            else:
                self._send_to(topic, self._avro.write(topic, batch, key))
            return
        records = pa.Table.from_batches([batch])
        names = [name for name in _RECORD_COLUMNS if name in records.column_names]
        for topic in dict.fromkeys(map(str, records.column("topic").to_pylist())):
            chosen = records.filter(pc.equal(records.column("topic"), text(topic)))
            self._send_to(topic, chosen.select(names))

    def _send_to(self, topic: str, records: pa.Table) -> None:
        self._offsets.producer.send_table(topic, records)
        if topic not in self._topics:
            self._topics[topic] = None
            self._report(TaskReport(TOPIC_USED, topic))


def _avro_rows(options: AvroOptions) -> "AvroRows":
    # Imports numpy.
    from headwater.connect.runtime.task.avro_rows import AvroRows

    return AvroRows(options)


def _create_topics(setup: TaskSetup, config: ConnectorConfig, source: Source) -> None:
    """Create missing topics if the config says how; otherwise the broker may."""
    creation = config.topic_creation
    if creation is None:
        return
    wanted = source.topics() if source.writes_records else [config.topic]
    with Admin({**setup.client, **setup.admin}) as admin:
        existing = admin.list_topics()
        missing = [
            NewTopic(
                name=name,
                partitions=creation.partitions,
                replication_factor=creation.replication_factor,
            )
            for name in wanted
            if name not in existing
        ]
        if missing:
            admin.create_topics(missing)
