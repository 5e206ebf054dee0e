"""What a task does: copies ranges of partitions, batch by batch, and notes how far it is.

Records go out in *chunks*. After each the task notes where it is, and in which places the records
lie; exactly once means that chunk and notes are one transaction. The time of a task is limited, and
it may stop before the end of its ranges: the notes say where the next one goes on.

What a reader would get wrong: where to begin is asked after the transactional id was taken over,
and not before. Only then is it certain that no former task writes another note.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headwater.client.consumer.offset_range_reader import FetchedBatches
from headwater.client.consumer.offset_requests import OffsetAndTimestamp
from headwater.client.errors import KafkaError, OffsetOutOfRange
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.common.ids import TopicPartition
from headwater.mirror.batch_copy import is_dense, sendable
from headwater.mirror.checkpoints import (
    REGISTRY,
    MirrorCheckpoint,
    checkpoint_group,
    checkpoint_of,
    committed_form,
    run_records,
)
from headwater.mirror.offset_map import OffsetPair, Run, latest, runs_after
from headwater.mirror.task_assignment import Copied, CopyRange
from headwater.records.batch_header import BatchHeader, read_header
from headwater.spark.source.topic_offsets import EARLIEST


class Placed(Protocol):
    """Where a record lies."""

    @property
    def offset(self) -> int: ...


class PendingCopy(Protocol):
    """What becomes of a batch that was sent."""

    def result(self, timeout: float | None = None) -> Placed:
        """Wait until it is acknowledged, or raise why not."""


class BatchSender(Protocol):
    """The part of `client.Producer` that is used here."""

    def send_batch(self, topic: str, partition: int, batch: bytearray) -> PendingCopy: ...
    def send(
        self, topic: str, value: bytes, key: bytes, partition: int | None = None
    ) -> PendingCopy: ...
    def init_transactions(self) -> None: ...
    def begin_transaction(self) -> None: ...
    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: str
    ) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...


class BatchSource(Protocol):
    """The part of `RangeReader` that reads the original."""

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[FetchedBatches]: ...
    def offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]: ...


class CheckpointWriter(Protocol):
    """The part of `RangeReader` that has to do with groups, of the cluster with the copies."""

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]: ...
    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None: ...


@dataclass(slots=True)
class _PartitionCopy:
    """One partition on its way."""

    range: CopyRange
    position: int
    last_run: Run | None
    records: int = 0
    size_bytes: int = 0
    lost: int = 0
    # Of the chunk that is open: what was sent, with the offsets that it had.
    sent: list[tuple[BatchHeader, int, int, PendingCopy]] = field(default_factory=list)

    def places(self) -> Iterator[OffsetPair]:
        """Where the records of the chunk lie, once all are acknowledged."""
        for header, first_offset, count, sending in self.sent:
            target = sending.result().offset
            if is_dense(header):
                yield OffsetPair(first_offset, target, count)
            else:
                # Within it offsets do not count alike, so only its beginning and end are known.
                yield OffsetPair(first_offset, target, 0)
                yield OffsetPair(header.next_offset, target + count, 0)


class PartitionCopy:
    """One task's work. `steady_ms` is a clock that never goes back."""

    def __init__(
        self,
        source_cluster: str,
        *,
        source: BatchSource,
        producer: BatchSender,
        notebook: CheckpointWriter,
        is_exactly_once: bool,
        chunk_bytes: int,
        slice_ms: int,
        steady_ms: Callable[[], int],
    ) -> None:
        self._cluster = source_cluster
        self._group = checkpoint_group(source_cluster)
        self._source = source
        self._producer = producer
        self._notebook = notebook
        self._is_exactly_once = is_exactly_once
        self._chunk_limit_bytes = chunk_bytes
        self._slice_ms = slice_ms
        self._steady_ms = steady_ms
        self._chunk_bytes = 0
        self._touched: dict[TopicPartition, _PartitionCopy] = {}
        self._is_open = False

    def run(self, ranges: Iterable[CopyRange]) -> list[Copied]:
        """Copy until all is copied, or the time is over."""
        if self._is_exactly_once:
            self._producer.init_transactions()
        copies = self._begun(list(ranges))
        until_ms = self._steady_ms() + self._slice_ms
        try:
            for copy in copies:
                self._copy(copy, until_ms)
                if self._steady_ms() >= until_ms:
                    break
            self._close_chunk()
        except BaseException:
            self._abort()
            raise
        return [
            Copied(
                source=copy.range.source,
                position=copy.position,
                last_run=copy.last_run,
                records=copy.records,
                size_bytes=copy.size_bytes,
                lost=copy.lost,
            )
            for copy in copies
        ]

    def _begun(self, ranges: list[CopyRange]) -> list[_PartitionCopy]:
        noted = self._notebook.committed(self._group, [each.target for each in ranges])
        copies = []
        for each in ranges:
            # A partition that was idle for long has no note any more, but still has its runs.
            note = checkpoint_of(noted.get(each.target), each.pair) or MirrorCheckpoint(position=-1)
            last_run = latest([each.last_run, note.last_run])
            copies.append(_PartitionCopy(each, max(each.start, note.position), last_run))
        return copies

    def _copy(self, copy: _PartitionCopy, until_ms: int) -> None:
        while copy.position < copy.range.end:
            try:
                for fetched in self._source.read(copy.range.source, copy.position, copy.range.end):
                    self._take(copy, fetched)
                    if self._steady_ms() >= until_ms:
                        return
                return
            except OffsetOutOfRange as error:
                self._skip_what_is_gone(copy, error)

    def _skip_what_is_gone(self, copy: _PartitionCopy, error: OffsetOutOfRange) -> None:
        """Retention was faster."""
        partition = copy.range.source
        earliest = self._source.offsets({partition: EARLIEST})[partition].offset
        if earliest <= copy.position:
            raise error
        copy.lost += earliest - copy.position
        copy.position = earliest

    def _take(self, copy: _PartitionCopy, fetched: FetchedBatches) -> None:
        if not self._is_open:
            self._is_open = True
            if self._is_exactly_once:
                self._producer.begin_transaction()
        self._touched[copy.range.target] = copy
        for position, header in fetched.batches:
            batch = sendable(fetched.data, header, position, copy.position)
            if batch is not None:
                self._send(copy, header, batch)
        copy.position = fetched.next_offset
        if self._chunk_bytes >= self._chunk_limit_bytes:
            self._close_chunk()

    def _send(self, copy: _PartitionCopy, header: BatchHeader, batch: bytearray) -> None:
        count, size_bytes = read_header(batch).record_count, len(batch)
        sending = self._producer.send_batch(*copy.range.target, batch)
        copy.sent.append((header, max(header.base_offset, copy.position), count, sending))
        copy.records += count
        copy.size_bytes += size_bytes
        self._chunk_bytes += size_bytes

    def _close_chunk(self) -> None:
        """Wait until all has arrived, and write down that it has."""
        if not self._is_open:
            return
        notes = {}
        written: list[PendingCopy] = []
        for target, copy in self._touched.items():
            pair = copy.range.pair
            runs = runs_after(copy.last_run, list(copy.places()))
            for run in runs:
                written += [
                    self._producer.send(REGISTRY, value, key, partition=0)
                    for key, value in run_records(self._cluster, target, pair, run)
                ]
            copy.last_run = runs[-1] if runs else copy.last_run
            copy.sent.clear()
            notes[target] = committed_form(
                MirrorCheckpoint(position=copy.position, last_run=copy.last_run), pair
            )
        for each in written:
            each.result()
        if self._is_exactly_once:
            self._producer.send_offsets_to_transaction(notes, self._group)
            self._producer.commit_transaction()
        else:
            self._notebook.commit(self._group, notes)
        self._touched.clear()
        self._chunk_bytes = 0
        self._is_open = False

    def _abort(self) -> None:
        if not (self._is_open and self._is_exactly_once):
            return
        try:
            self._producer.abort_transaction()
        except KafkaError:
            # Fenced, or out of reach: the next task has the coordinator do it.
            return
