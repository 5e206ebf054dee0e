"""The mirror of `cdc_job` without Spark: its micro-batches in two threads of one process.

    python -m tests.spark.eos.cdc_plain_job '{"brokers": ..., "tables": [...], ...}'

Source, sinks and exactly-once delivery are the ones of Spark's tasks. Only the loop is a copy of
Spark's: the end of a batch is noted before it runs, and its commit after it. A restart costs a
second instead of half a minute, so that many more kills fit into a test.
"""

import json
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from headwater.client import Consumer, ConsumerRecord, Producer, TopicPartition
from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.connect.connector import Position
from headwater.connect.connector_registry import open_sink, open_source
from headwater.spark.sink.exactly_once import BatchIdentity, write_exactly_once
from headwater.spark.sink.sink_options import read_sink_options
from tests.spark.eos.cdc_job import CdcJob, sink_options, source_options

_POLL_S = 0.1
_PAUSE = threading.Event()
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Batches:
    """The batches of one query, noted in the files of its checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._offsets = checkpoint / "offsets"
        self._commits = checkpoint / "commits"
        for folder in (self._offsets, self._commits):
            folder.mkdir(parents=True, exist_ok=True)
        # The same after each restart.
        self.query_id = str(uuid.uuid5(uuid.NAMESPACE_URL, str(checkpoint)))

    def run(
        self,
        latest: Callable[[Position], Position],
        write: Callable[[int, Position, Position], None],
        *,
        is_once: bool,
    ) -> None:
        """Run batches; with `is_once` until there is nothing new, else for ever."""
        while True:
            batch_id = len(list(self._commits.glob("[0-9]*")))
            start = self._noted(batch_id - 1)
            end = self._noted(batch_id)
            if not end:
                end = json.loads(json.dumps(latest(start)))
                if end == start:
                    if is_once:
                        return
                    _PAUSE.wait(_POLL_S)
                    continue
                self._note(self._offsets / str(batch_id), json.dumps(end))
            write(batch_id, start, end)
            self._note(self._commits / str(batch_id), "")

    def _noted(self, batch_id: int) -> Position:
        path = self._offsets / str(batch_id)
        found: Position = json.loads(path.read_text()) if path.exists() else {}
        return found

    def _note(self, path: Path, text: str) -> None:
        whole = path.with_name(f".{path.name}")
        whole.write_text(text)
        whole.rename(path)


def capture(job: CdcJob) -> None:
    """Write changes of the source to topics."""
    batches = Batches(Path(job.checkpoint("captured")))
    options = read_sink_options(
        {
            "kafka.bootstrap.servers": job.brokers,
            "markerTopic": job.topics[0],
            "delivery": "exactly-once",
        },
        is_streaming=True,
    )
    with (
        closing(open_source("postgresql-cdc", source_options(job))) as source,
        OffsetRangeReader({"bootstrap.servers": job.brokers}) as brokers,
    ):

        def latest(start: Position) -> Position:
            source.commit(start)
            return source.latest(start)

        def committed(group_id: str, marker: TopicPartition) -> int | None:
            found = brokers.committed(group_id, [marker]).get(marker)
            return None if found is None else found.offset

        def write(batch_id: int, start: Position, end: Position) -> None:
            for number, split in enumerate(source.splits(start, end)):
                identity = BatchIdentity(
                    query_id=batches.query_id, batch_id=batch_id, partition=number
                )
                name = identity.transactional_id(options.transactional_id_prefix)
                with Producer({**options.client, "transactional.id": name}) as producer:
                    write_exactly_once(
                        source.read(split),
                        options,
                        identity,
                        producer=producer,
                        committed_batch=committed,
                    )

        batches.run(latest, write, is_once=job.is_once)


def apply(job: CdcJob) -> None:
    """Apply the topics to the target."""
    batches = Batches(Path(job.checkpoint("applied")))
    sink = open_sink("postgresql", sink_options(job))
    with Consumer(
        bootstrap_servers=job.brokers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        partitions = [
            TopicPartition(topic, number)
            for topic in job.topics
            for number in consumer.partitions_for(topic)
        ]

        def latest(start: Position) -> Position:
            del start
            ends = consumer.end_offsets(partitions)
            return {f"{each.topic}:{each.partition}": ends[each] for each in partitions}

        def write(batch_id: int, start: Position, end: Position) -> None:
            for number, each in enumerate(partitions):
                name = f"{each.topic}:{each.partition}"
                records = list(_records(consumer, each, start.get(name, 0), end[name]))
                batch = _batch(records)
                sink.prepare(batch.schema)
                part = BatchIdentity(query_id=batches.query_id, batch_id=batch_id, partition=number)
                sink.write(part, iter([batch]))

        batches.run(latest, write, is_once=job.is_once)


def _records(
    consumer: Consumer, partition: TopicPartition, start: int, end: int
) -> Iterator[ConsumerRecord]:
    """Committed records between two offsets."""
    consumer.assign({partition: start})
    while consumer.position(partition) < end:
        yield from (each for each in consumer.poll(1.0) if each.offset < end)


def _batch(records: list[ConsumerRecord]) -> pa.RecordBatch:
    headers = [[{"key": key, "value": value} for key, value in each.headers] for each in records]
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([each.topic for each in records], pa.string()),
            "key": pa.array([each.key for each in records], pa.binary()),
            "value": pa.array([each.value for each in records], pa.binary()),
            "partition": pa.array([each.partition for each in records], pa.int32()),
            "headers": pa.array(headers, _HEADERS),
        }
    )


def main() -> None:
    job = CdcJob(**json.loads(sys.argv[1]))
    if job.is_once:
        capture(job)
        apply(job)
        return

    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(run, job) for run in (capture, apply)]
        for failed in wait(running, return_when=FIRST_COMPLETED).done:
            print(failed.exception(), flush=True)
        # The other one would run on.
        os._exit(1)


if __name__ == "__main__":
    main()
