"""Copy ranges of partitions batch by batch, and commit checkpoints.

Records are sent in *chunks*. After each chunk the task commits a checkpoint and the offsets of the
copied records; with exactly-once delivery, chunk and checkpoint are one transaction. A task's time
is limited, so it may stop before the end of its ranges; the next task continues at the checkpoints.

Note: the checkpoint is read after `init_transactions`, never before. Only then is it certain that
no earlier task can commit another one.
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


class Acknowledged(Protocol):
    """A record with an offset."""

    @property
    def offset(self) -> int: ...


class PendingSend(Protocol):
    """The future of a sent batch."""

    def result(self, timeout: float | None = None) -> Acknowledged:
        """Wait until it is acknowledged, or raise the error."""


class BatchSender(Protocol):
    """The part of `client.Producer` that is used here."""

    def send_batch(self, topic: str, partition: int, batch: bytearray) -> PendingSend: ...
    def send(
        self, topic: str, value: bytes, key: bytes, partition: int | None = None
    ) -> PendingSend: ...
    def init_transactions(self) -> None: ...
    def begin_transaction(self) -> None: ...
    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: str
    ) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...


class BatchSource(Protocol):
    """The part of `OffsetRangeReader` that reads the source."""

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[FetchedBatches]: ...
    def offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]: ...


class CheckpointWriter(Protocol):
    """The part of `OffsetRangeReader` that reads and commits target offsets."""

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]: ...
    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None: ...


@dataclass(slots=True)
class _PartitionCopy:
    """Progress of one partition."""

    range: CopyRange
    position: int
    last_run: Run | None
    records: int = 0
    size_bytes: int = 0
    lost: int = 0
    # Batches of the open chunk with their source offsets.
    sent: list[tuple[BatchHeader, int, int, PendingSend]] = field(default_factory=list)

    def pairs(self) -> Iterator[OffsetPair]:
        """Source and target offsets of the chunk's records, once they are acknowledged."""
        for header, first_offset, count, sending in self.sent:
            target = sending.result().offset
            if is_dense(header):
                yield OffsetPair(first_offset, target, count)
            else:
                # The batch has gaps, so only its first and next offset can be mapped.
                yield OffsetPair(first_offset, target, 0)
                yield OffsetPair(header.next_offset, target + count, 0)


class PartitionCopy:
    """Run one task. `steady_ms` is a monotonic clock."""

    def __init__(
        self,
        source_cluster: str,
        *,
        source: BatchSource,
        producer: BatchSender,
        checkpoints: CheckpointWriter,
        is_exactly_once: bool,
        chunk_bytes: int,
        slice_ms: int,
        steady_ms: Callable[[], int],
    ) -> None:
        self._cluster = source_cluster
        self._group = checkpoint_group(source_cluster)
        self._source = source
        self._producer = producer
        self._checkpoints = checkpoints
        self._is_exactly_once = is_exactly_once
        self._chunk_limit_bytes = chunk_bytes
        self._slice_ms = slice_ms
        self._steady_ms = steady_ms
        self._chunk_bytes = 0
        self._touched: dict[TopicPartition, _PartitionCopy] = {}
        self._is_open = False

    def run(self, ranges: Iterable[CopyRange]) -> list[Copied]:
        """Copy until the ranges are complete or the time is up."""
        if self._is_exactly_once:
            self._producer.init_transactions()
        copies = self._started(list(ranges))
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

    def _started(self, ranges: list[CopyRange]) -> list[_PartitionCopy]:
        committed = self._checkpoints.committed(self._group, [each.target for each in ranges])
        copies = []
        for each in ranges:
            # The checkpoint of a long idle partition may have expired, but its runs have not.
            checkpoint = checkpoint_of(committed.get(each.target), each.pair) or MirrorCheckpoint(
                position=-1
            )
            last_run = latest([each.last_run, checkpoint.last_run])
            copies.append(_PartitionCopy(each, max(each.start, checkpoint.position), last_run))
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
                self._skip_deleted(copy, error)

    def _skip_deleted(self, copy: _PartitionCopy, error: OffsetOutOfRange) -> None:
        """Skip records that retention deleted before they were copied."""
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
        """Wait for acknowledgements, then commit the checkpoint."""
        if not self._is_open:
            return
        offsets = {}
        written: list[PendingSend] = []
        for target, copy in self._touched.items():
            pair = copy.range.pair
            runs = runs_after(copy.last_run, list(copy.pairs()))
            for run in runs:
                written += [
                    self._producer.send(REGISTRY, value, key, partition=0)
                    for key, value in run_records(self._cluster, target, pair, run)
                ]
            copy.last_run = runs[-1] if runs else copy.last_run
            copy.sent.clear()
            offsets[target] = committed_form(
                MirrorCheckpoint(position=copy.position, last_run=copy.last_run), pair
            )
        for each in written:
            each.result()
        if self._is_exactly_once:
            self._producer.send_offsets_to_transaction(offsets, self._group)
            self._producer.commit_transaction()
        else:
            self._checkpoints.commit(self._group, offsets)
        self._touched.clear()
        self._chunk_bytes = 0
        self._is_open = False

    def _abort(self) -> None:
        if not (self._is_open and self._is_exactly_once):
            return
        try:
            self._producer.abort_transaction()
        except KafkaError:
            # Fenced or unreachable: the next task's InitProducerId aborts the transaction.
            return
