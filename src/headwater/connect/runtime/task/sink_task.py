"""Write records of topics to a sink, exactly once, without Spark.

A batch is planned before it is written: the plan, which partitions from which offset to which, is
written to the offset topic. Then the parts of the batch are written, and the offsets of the group
`connect-NAME` are committed. A task that starts after a crash finds a plan whose offsets are not
committed, and writes the same parts again under the same identity; a sink recognizes the parts
that it has. Plans and commits are transactions, so that a task that was replaced can do neither.
"""

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headwater.client import Admin, Consumer, NewTopic, TopicPartition
from headwater.connect.connector import Part, Sink
from headwater.connect.import_export import check_key
from headwater.connect.runtime.connector_config import ConnectorConfig
from headwater.connect.runtime.task.json_rows import (
    JsonRowReader,
    MalformedValue,
    row_schema,
    schema_of,
    without_tombstones,
)
from headwater.connect.runtime.task.task_offsets import TaskOffsets
from headwater.connect.runtime.task.task_setup import (
    SINK_PARTITION,
    STARTED,
    TOPIC_USED,
    TaskReport,
    TaskSetup,
)
from headwater.records.arrow_values import integer, text
from headwater.spark.exceptions import UnparsableRecord

_POLL_S: Final = 1.0
_METADATA_S: Final = 30.0
_CONTEXT: Final = "__connect.errors."

Range = dict[str, Any]

log = logging.getLogger(__name__)


def run_sink_task(
    setup: TaskSetup,
    config: ConnectorConfig,
    *,
    report: Callable[[TaskReport], None],
    stop: threading.Event,
) -> None:
    """Write batches until `stop` is set."""
    sink = config.open_sink()
    offsets = TaskOffsets(setup, SINK_PARTITION, config.producer_overrides)
    reading = {
        **setup.client,
        **setup.consumer,
        **config.consumer_overrides,
        "client.id": f"connector-consumer-{setup.connector}-0",
        "group.id": setup.sink_group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        # Committed offsets or the beginning are sought explicitly.
        "auto.offset.reset": "none",
    }
    with (
        closing(offsets),
        _row_reader(config) as rows,
        Consumer(reading) as consumer,
        Admin({**setup.client, **setup.admin}) as admin,
    ):
        task = _SinkTask(setup, config, sink, rows, offsets, consumer, admin, report)
        task.prepare()
        task.finish_planned()
        report(TaskReport(STARTED))
        while not stop.is_set():
            if task.has_partitions():
                task.write_next()
            else:
                # Topics may appear later.
                stop.wait(_POLL_S)


class RowReader(Protocol):
    """Decodes values as columns."""

    columns: pa.Schema

    def read(self, records: pa.Table, key: str | None) -> pa.RecordBatch: ...


@contextmanager
def _row_reader(config: ConnectorConfig) -> Iterator[RowReader | None]:
    """Decoder of values; None for a sink that takes records as they are."""
    if config.avro is not None:
        # Imports numpy.
        from headwater.connect.runtime.task.avro_rows import AvroRows

        with closing(AvroRows(config.avro)) as avro:
            yield avro.reader(config.topics[0])
    elif config.schema is not None:
        yield JsonRowReader(schema_of(config.schema))
    else:
        yield None


class _SinkTask:
    def __init__(
        self,
        setup: TaskSetup,
        config: ConnectorConfig,
        sink: Sink,
        rows: RowReader | None,
        offsets: TaskOffsets,
        consumer: Consumer,
        admin: Admin,
        report: Callable[[TaskReport], None],
    ) -> None:
        self._setup = setup
        self._config = config
        self._sink = sink
        self._reader = rows
        self._offsets = offsets
        self._consumer = consumer
        self._admin = admin
        self._report = report
        self._query_id = str(uuid.uuid4())
        self._next_batch = 0
        self._assigned: list[TopicPartition] = []
        self._assigned_until_s = 0.0
        self._topics: dict[str, None] = {}

    def prepare(self) -> None:
        """Check the sink, and create the topic of dead letters."""
        if self._reader is not None:
            check_key(self._config.key, self._reader.columns.names)
            self._sink.prepare(row_schema(self._reader.columns, self._config.key))
        else:
            self._sink.prepare(_record_schema())
        errors = self._config.errors
        topic = errors.dead_letter_topic
        if topic is not None and topic not in self._admin.list_topics():
            factor = errors.replication_factor
            self._admin.create_topics(
                [NewTopic(name=topic, partitions=1, replication_factor=factor)]
            )

    def finish_planned(self) -> None:
        """Write the batch again that an earlier task has planned but not committed."""
        plan = self._offsets.read()
        if not plan:
            return
        self._query_id, self._next_batch = plan["query_id"], plan["batch_id"] + 1
        ranges: list[Range] = plan["ranges"]
        committed = self._consumer.committed([_partition(each) for each in ranges])
        if all(_is_done(each, committed) for each in ranges):
            return
        log.info("Writing a planned batch again: batch=%d", plan["batch_id"])
        records = self._read_again(ranges)
        self._write(records, ranges, plan["batch_id"])

    def write_next(self) -> None:
        """Plan and write the next batch, if there are records."""
        records = self._consumer.poll_table(_POLL_S, self._config.batch_max_records)
        if not records.num_rows:
            return
        ranges = _ranges(records)
        batch_id = self._next_batch
        producer = self._offsets.producer
        producer.begin_transaction()
        self._offsets.send({"query_id": self._query_id, "batch_id": batch_id, "ranges": ranges})
        producer.commit_transaction()
        self._write(records, ranges, batch_id)
        self._next_batch += 1

    def has_partitions(self) -> bool:
        """Assign all partitions of the topics, and look for new ones from time to time."""
        now_s = time.monotonic()
        if not self._assigned or now_s >= self._assigned_until_s:
            self._assign(now_s)
        return bool(self._assigned)

    def _assign(self, now_s: float) -> None:
        self._assigned_until_s = now_s + _METADATA_S
        found = [
            TopicPartition(topic, number)
            for topic in self._topic_names()
            for number in sorted(self._consumer.partitions_for(topic))
        ]
        if found == self._assigned:
            return
        known = {each: self._consumer.position(each) for each in self._assigned if each in found}
        self._assigned = found
        self._consumer.assign(found)
        added = [each for each in found if each not in known]
        committed = self._consumer.committed(added)
        for each in found:
            stored = committed.get(each)
            if each in known:
                self._consumer.seek(each, known[each])
            elif stored is not None:
                self._consumer.seek(each, stored.offset)
            else:
                self._consumer.seek_to_beginning([each])

    def _topic_names(self) -> list[str]:
        existing = self._admin.list_topics()
        if self._config.topics_regex is None:
            return [each for each in self._config.topics if each in existing]
        pattern = re.compile(self._config.topics_regex)
        return sorted(each for each in existing if pattern.fullmatch(each))

    def _read_again(self, ranges: Sequence[Range]) -> pa.Table:
        self._consumer.assign([_partition(each) for each in ranges])
        ends = {_partition(each): each["end"] for each in ranges}
        for each in ranges:
            self._consumer.seek(_partition(each), each["start"])
        found = []
        while any(self._consumer.position(each) < end for each, end in ends.items()):
            found.append(self._consumer.poll_table(_POLL_S))
        self._assigned = []
        return pa.concat_tables(found or [_record_schema().empty_table()])

    def _write(self, records: pa.Table, ranges: Sequence[Range], batch_id: int) -> None:
        """Write the parts of a batch, then commit its offsets and dead letters."""
        letters: list[dict[str, Any]] = []
        # Reported again with each batch: the worker's list may have been reset.
        self._topics.clear()
        for number, each in enumerate(ranges):
            part = Part(query_id=self._query_id, batch_id=batch_id, partition=number)
            rows = self._rows(_within(records, each), letters)
            self._sink.write(part, iter(rows))
            self._use_topic(each["topic"])
        producer = self._offsets.producer
        producer.begin_transaction()
        for letter in letters:
            producer.send(**letter)
        ends = {_partition(each): each["end"] for each in ranges}
        producer.send_offsets_to_transaction(ends, self._setup.sink_group)
        producer.commit_transaction()

    def _rows(self, records: pa.Table, letters: list[dict[str, Any]]) -> list[pa.RecordBatch]:
        """The rows of a part; records that cannot be decoded become dead letters."""
        if self._reader is None:
            return records.to_batches()
        if self._config.key is None:
            records = without_tombstones(records)
        while True:
            try:
                return [self._reader.read(records, self._config.key)]
            except MalformedValue as error:
                failed = records.slice(error.row, 1).to_pylist()[0]
                self._tolerate(failed, str(error), letters)
                records = pa.concat_tables(
                    [records.slice(0, error.row), records.slice(error.row + 1)]
                )

    def _tolerate(self, record: dict[str, Any], reason: str, letters: list[dict[str, Any]]) -> None:
        errors = self._config.errors
        place = f"topic={record['topic']} partition={record['partition']} offset={record['offset']}"
        if not errors.is_tolerant:
            raise UnparsableRecord(
                f"a value does not match the schema: {place} reason={reason}; "
                "errors.tolerance=all skips such records"
            )
        if errors.logs:
            shown = f" value={record['value']!r}" if errors.logs_messages else ""
            log.warning("Skipped record: %s reason=%s%s", place, reason, shown)
        if errors.dead_letter_topic is not None:
            headers = [(each["key"], each["value"]) for each in record["headers"] or ()]
            if errors.has_context_headers:
                headers += self._context(record, reason)
            letters.append(
                {
                    "topic": errors.dead_letter_topic,
                    "value": record["value"],
                    "key": record["key"],
                    "headers": headers,
                }
            )

    def _context(self, record: dict[str, Any], reason: str) -> list[tuple[str, bytes]]:
        told = {
            "topic": record["topic"],
            "partition": record["partition"],
            "offset": record["offset"],
            "connector.name": self._setup.connector,
            "task.id": 0,
            "stage": "VALUE_CONVERTER",
            "exception.message": reason,
        }
        return [(_CONTEXT + name, str(value).encode()) for name, value in told.items()]

    def _use_topic(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics[topic] = None
            self._report(TaskReport(TOPIC_USED, topic))


def _record_schema() -> pa.Schema:
    from headwater.client.consumer.fetch.arrow_tables import SCHEMA

    return SCHEMA


def _ranges(records: pa.Table) -> list[Range]:
    """First and end offset of each partition, sorted: parts have fixed numbers."""
    found = records.group_by(["topic", "partition"]).aggregate(
        [("offset", "min"), ("offset", "max")]
    )
    return sorted(
        (
            {
                "topic": row["topic"],
                "partition": row["partition"],
                "start": row["offset_min"],
                "end": row["offset_max"] + 1,
            }
            for row in found.to_pylist()
        ),
        key=lambda each: (each["topic"], each["partition"]),
    )


def _within(records: pa.Table, given: Range) -> pa.Table:
    wanted = pc.and_(
        pc.equal(records.column("topic"), text(given["topic"])),
        pc.equal(records.column("partition"), integer(given["partition"], pa.int32())),
    )
    is_before_end = pc.less(records.column("offset"), integer(given["end"], pa.int64()))
    return records.filter(pc.and_(wanted, is_before_end))


def _partition(given: Range) -> TopicPartition:
    return TopicPartition(given["topic"], given["partition"])


def _is_done(given: Range, committed: dict[TopicPartition, Any]) -> bool:
    found = committed.get(_partition(given))
    return found is not None and found.offset >= given["end"]
