"""Read ranges of a topic in background threads, as batches of rows.

A few threads fetch, decode and filter; a bounded queue leads to DuckDB's threads. Closing the scan
or cancelling the query ends the threads.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headwater.client.consumer.auto_offset_reset import EARLIEST_TIMESTAMP
from headwater.client.consumer.offset_range_reader import FetchedBatches, OffsetRangeReader
from headwater.client.errors import KafkaError, OffsetOutOfRange
from headwater.common.ids import TopicPartition
from headwater.records.arrow_columns import decode_batches
from headwater.records.batch_header import CODEC_MASK
from headwater.sql.query_progress import MisfitExample, QueryProgress
from headwater.sql.topic_table import Misfit, TableRows, before_and_from

FIRST_FETCH_BYTES: Final = 65_536
FETCH_BYTES: Final = 8_388_608
QUEUE_BYTES: Final = 67_108_864
# Compressed batches are decoded in groups of this size: they may be many times as large inside.
_COMPRESSED_GROUP_BYTES: Final = 1_048_576
_THREADS_MAX: Final = 4
_KEPT_READERS: Final = 8

SETTINGS: Final[Mapping[str, object]] = {
    "client.id": "headwater-sql",
    "isolation.level": "read_committed",
    "max.partition.fetch.bytes": FETCH_BYTES,
    "fetch.max.bytes": FETCH_BYTES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRange:
    """Offsets [start, end) of a partition."""

    partition: TopicPartition
    start: int
    end: int


ToRows = Callable[[TopicPartition, pa.RecordBatch], TableRows]


class ReaderPool:
    """Connections for one thread each, kept between queries. Thread-safe."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = dict(settings)
        self._lock = threading.Lock()
        self._idle: list[OffsetRangeReader] = []
        self._is_closed = False

    def take(self) -> OffsetRangeReader:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return OffsetRangeReader(self._settings)

    def give_back(self, reader: OffsetRangeReader) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _KEPT_READERS:
                self._idle.append(reader)
                return
        _close(reader)

    @contextmanager
    def lent(self) -> Iterator[OffsetRangeReader]:
        """A reader for a block; it is closed if the block fails."""
        reader = self.take()
        try:
            yield reader
        except BaseException:
            _close(reader)
            raise
        self.give_back(reader)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            _close(each)


def _close(reader: OffsetRangeReader) -> None:
    with suppress(KafkaError):
        reader.close()


class BatchQueue:
    """Batches from several threads for several threads, bounded by bytes."""

    def __init__(self, limit_bytes: int = QUEUE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._writers = 0
        self._is_closed = False
        self._error: BaseException | None = None

    def add_writer(self) -> None:
        with self._changed:
            self._writers += 1

    def end_writer(self, error: BaseException | None) -> None:
        with self._changed:
            self._writers -= 1
            self._error = self._error or error
            self._changed.notify_all()

    def put(self, batch: pa.RecordBatch) -> bool:
        """Wait for room; False if the queue is closed."""
        with self._changed:
            while self._bytes >= self._limit_bytes and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return False
            self._batches.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify_all()
            return True

    def get(self) -> pa.RecordBatch | None:
        """The next batch; None at the end. Raises the error of a writer."""
        with self._changed:
            while not self._batches and self._writers and not self._is_closed and not self._error:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            if self._is_closed or not self._batches:
                return None
            batch = self._batches.popleft()
            self._bytes -= batch.nbytes
            self._changed.notify_all()
            return batch

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._batches.clear()
            self._bytes = 0
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        return self._is_closed


class TopicScan:
    """One reading of ranges; use `batches` once."""

    def __init__(
        self,
        readers: ReaderPool,
        ranges: list[PartitionRange],
        to_rows: ToRows,
        progress: QueryProgress,
    ) -> None:
        self._readers = readers
        self._ranges = deque(ranges)
        self._to_rows = to_rows
        self._progress = progress
        self._queue = BatchQueue()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """TableRows in any order of partitions; within a range, in order of offsets."""
        count = min(len(self._ranges), _THREADS_MAX)
        threads = []
        for _ in range(count):
            self._queue.add_writer()
            thread = threading.Thread(target=self._work, name="headwater-sql-scan", daemon=True)
            threads.append(thread)
        self._progress.on_end(self._queue.close)
        for each in threads:
            each.start()
        try:
            while (batch := self._queue.get()) is not None:
                yield batch
            self._progress.check()
        finally:
            self._queue.close()

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            with self._readers.lent() as reader:
                while not self._queue.is_closed:
                    try:
                        chosen = self._ranges.popleft()
                    except IndexError:
                        break
                    self._read(reader, chosen)
        except BaseException as failure:  # noqa: BLE001 - raised again in the thread that reads
            error = failure
        finally:
            self._queue.end_writer(error)

    def _read(self, reader: OffsetRangeReader, chosen: PartitionRange) -> None:
        place = chosen.partition
        start = chosen.start
        while start < chosen.end and not self._queue.is_closed:
            try:
                batches = reader.read(place, start, chosen.end, first_fetch_bytes=FIRST_FETCH_BYTES)
                with closing(batches):
                    for fetched in batches:
                        if not self._take(chosen, fetched):
                            return
                        start = min(fetched.next_offset, chosen.end)
            except OffsetOutOfRange:
                first = reader.offsets({place: EARLIEST_TIMESTAMP})[place].offset
                if first <= start:
                    raise
                # Retention has deleted records since the query was planned.
                first = min(first, chosen.end)
                self._progress.deleted(first - start)
                start = first

    def _take(self, chosen: PartitionRange, fetched: FetchedBatches) -> bool:
        end = min(fetched.next_offset, chosen.end)
        self._progress.fetched(len(fetched.data), end - fetched.first_offset)
        for records in _decoded(fetched):
            within = before_and_from(records, fetched.first_offset, chosen.end)
            if within.num_rows and not self._deliver(chosen.partition, within):
                return False
        return not self._queue.is_closed

    def _deliver(self, partition: TopicPartition, records: pa.RecordBatch) -> bool:
        self._progress.decoded(records.num_rows)
        rows = self._to_rows(partition, records)
        if rows.misfits:
            self._report(partition, records, rows.misfits)
        return not rows.batch.num_rows or self._queue.put(rows.batch)

    def _report(
        self, partition: TopicPartition, records: pa.RecordBatch, misfits: list[Misfit]
    ) -> None:
        offsets = records.column("offset")
        self._progress.misfitted(
            MisfitExample(
                partition=partition,
                offset=offsets[each.row].as_py(),
                part=each.part,
                reason=each.reason,
            )
            for each in misfits
        )


def _decoded(fetched: FetchedBatches) -> Iterator[pa.RecordBatch]:
    """Decode a response; compressed batches in small groups, which bounds memory."""
    group = []
    size = 0
    for position, header in fetched.batches:
        group.append((position, header))
        if header.attributes & CODEC_MASK:
            size += header.length
        if size >= _COMPRESSED_GROUP_BYTES:
            yield decode_batches(fetched.data, group)
            group, size = [], 0
    if group:
        yield decode_batches(fetched.data, group)
