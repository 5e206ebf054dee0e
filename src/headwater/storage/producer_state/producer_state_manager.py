"""ProducerStateManager: epoch, last batches and transaction per producer.

Pure: no I/O. The log calls `find_duplicate` and `check` before it writes a batch and `record` after
it; the same `record` runs when the state is rebuilt from the log.

Note: a transaction stays unstable after its marker is written, until the high watermark has passed
the marker (LSO-1); otherwise a consumer could see a commit that a new leader does not have. Moving
the log start removes no producer: as in Kafka, the state of a producer whose records are deleted
stays until it expires, so its retries are still recognised.

The number of producers is not bounded. As in Kafka, idle ones expire after
producer.id.expiration.ms, and those with an open transaction never do (IDP-8).
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from headwater.common.exceptions import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from headwater.common.ids import NO_SEQUENCE, NO_TIMESTAMP
from headwater.records.batch_header import MAX_SEQUENCE, TRANSACTIONAL_FLAG, BatchHeader
from headwater.records.kernel.batch_runs import BATCHES_REMEMBERED

NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1


class AppendOrigin(Enum):
    """Origin of a batch, which decides how it is validated (IDP-9)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class BatchEntry(NamedTuple):
    """Metadata of a written batch, enough to answer a retry. Kafka: BatchMetadata."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """State of a producer in snapshots and DescribeProducers: last batch only.

    `last_offset` is -1 if only markers are known, `transaction_first_offset` if no transaction is
    open. `last_offset_delta` is the last offset minus the first one of the batch. Kafka:
    ProducerStateEntry.
    """

    producer_id: int
    epoch: int
    last_sequence: int = NO_SEQUENCE
    last_offset: int = NO_OFFSET
    last_offset_delta: int = 0
    timestamp: int = NO_TIMESTAMP
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    transaction_first_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTransaction:
    """Transaction ended by a marker at `last_offset` (Kafka: CompletedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class _Producer:
    """State of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "timestamp", "transaction_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchEntry] = deque(maxlen=BATCHES_REMEMBERED)
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.timestamp = NO_TIMESTAMP
        self.transaction_first_offset = NO_OFFSET


class ProducerStateManager:
    """All producers of one partition, and its unstable transactions."""

    __slots__ = ("_ongoing", "_producers", "_unreplicated")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        # First offset to producer id, ascending because offsets are assigned in order. An
        # OrderedDict finds its first key immediately, where a plain dict walks over deleted ones.
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        # (first offset, marker offset) of ended transactions, both strictly ascending: one that
        # began no earlier than a later-ended one can never be the minimum. A list, because an empty
        # deque costs 700 bytes, and most partitions have no transaction.
        self._unreplicated: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._producers)

    def find_duplicate(self, header: BatchHeader) -> BatchEntry | None:
        """Return the batch with the same epoch and sequences, if any (IDP-2).

        Call this before `check`, which would reject a duplicate as out of sequence.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        first_sequence = header.base_sequence
        if first_sequence < 0:
            # Coordinators' batches have no sequence and are never duplicates.
            return None
        for batch in producer.batches:
            # By tuple index, because this runs for every Produce: first and last sequence.
            if batch[0] == first_sequence and batch[1] == header.last_sequence:
                return batch
        return None

    def may_have_expired(self, header: BatchHeader) -> bool:
        """Return whether a batch may be older than its producer's remembered ones.

        Fewer than usual are remembered after a restart: a snapshot has only the last one.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch or not producer.batches:
            return False
        behind = (producer.batches[0].first_sequence - header.last_sequence) & MAX_SEQUENCE
        return len(producer.batches) < BATCHES_REMEMBERED and 0 < behind <= MAX_SEQUENCE // 2

    def has_producer(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has written in its current transaction (TX-13)."""
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.epoch == epoch
            and producer.transaction_first_offset >= 0
        )

    def check(self, header: BatchHeader, origin: AppendOrigin) -> None:
        """Reject a data batch that does not follow the producer's last one.

        An unknown producer may start at any sequence (IDP-6): its state may have expired, and the
        records that would show its last sequence may be deleted.
        """
        if header.producer_id < 0 or origin is AppendOrigin.REPLICATION:
            return
        if origin is AppendOrigin.CLIENT and header.base_sequence < 0:
            raise InvalidRecord(
                f"producer {header.producer_id} sent a batch with base sequence "
                f"{header.base_sequence}"
            )
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        _check_epoch(producer, header.producer_id, header.producer_epoch)
        if origin is AppendOrigin.CLIENT:
            _check_sequence(producer, header)
        if producer.transaction_first_offset >= 0 and not header.attributes & TRANSACTIONAL_FLAG:
            raise InvalidTxnState(
                f"producer {header.producer_id} sent a non-transactional batch during the "
                f"transaction that it opened at offset {producer.transaction_first_offset}"
            )

    def check_marker(self, *, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Reject a transaction marker from a fenced coordinator or producer epoch (TX-6).

        Markers that arrive by replication were checked by the leader and are not checked here.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        _check_epoch(producer, producer_id, epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a marker for producer {producer_id} has coordinator epoch {coordinator_epoch}, "
                f"but epoch {producer.coordinator_epoch} has already written one"
            )

    def record(self, header: BatchHeader, *, first_offset: int, timestamp: int) -> None:
        """Record a data batch that was written.

        Offset and timestamp are parameters because the header may still be the client's; the
        timestamp is the largest of the batch as stored. The caller skips batches without a
        producer.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return
        producer = self._at_epoch(producer_id, header.producer_epoch)
        producer.batches.append(
            BatchEntry(
                header.base_sequence,
                header.last_sequence,
                first_offset,
                first_offset + header.last_offset_delta,
                timestamp,
            )
        )
        producer.timestamp = timestamp
        if header.attributes & TRANSACTIONAL_FLAG and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = first_offset
            self._ongoing[first_offset] = producer_id

    def record_marker(
        self,
        *,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        is_abort: bool,
        offset: int,
        timestamp: int,
    ) -> CompletedTransaction | None:
        """Record a marker; return the transaction it ended, or None if none was open.

        A marker with a new epoch removes the batches of the old one, so that the producer starts
        again at sequence 0. Do not record a marker that compaction has emptied.
        """
        producer = self._at_epoch(producer_id, epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.timestamp = timestamp
        first_offset = producer.transaction_first_offset
        if first_offset < 0:
            return None
        producer.transaction_first_offset = NO_OFFSET
        del self._ongoing[first_offset]
        while self._unreplicated and self._unreplicated[-1][0] >= first_offset:
            self._unreplicated.pop()
        self._unreplicated.append((first_offset, offset))
        return CompletedTransaction(
            producer_id=producer_id,
            first_offset=first_offset,
            last_offset=offset,
            is_aborted=is_abort,
        )

    def last_stable_offset_when(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset for an aborted transaction's index entry.

        It considers only open transactions, as if all markers were replicated, and must be called
        before anything else is recorded.
        """
        return next(iter(self._ongoing), completed.last_offset + 1)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the start of the first open or not yet replicated transaction."""
        undecided = next(iter(self._ongoing), None)
        for first_offset, marker_offset in self._unreplicated:
            if marker_offset >= high_watermark:
                return first_offset if undecided is None else min(first_offset, undecided)
        return undecided

    def last_stable_offset(self, *, high_watermark: int, log_start_offset: int) -> int:
        """Return the last stable offset, the upper bound for read_committed (LSO-1).

        DeleteRecords may delete the start of an open transaction; the last stable offset does not
        fall below the log start because of it.
        """
        unstable = self.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, log_start_offset)

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Remove ended transactions whose marker is replicated.

        A moved log start needs no call, because it never passes the high watermark.
        """
        unreplicated = self._unreplicated
        if unreplicated and unreplicated[0][1] < high_watermark:
            del unreplicated[: bisect_left(unreplicated, high_watermark, key=_marker_offset)]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers idle for `expiration_ms` without a transaction; count them.

        As in Kafka, the timestamps in the batches count, not their arrival: a producer that writes
        old records expires at the next check.
        """
        idle = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset < 0
            and now_ms - producer.timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self._producers[producer_id]
        return len(idle)

    def entries(self) -> list[ProducerEntry]:
        """Return every producer, for a snapshot or for DescribeProducers."""
        return [_entry(producer_id, producer) for producer_id, producer in self._producers.items()]

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace the state with a snapshot; then the log after it is recorded again.

        This is also how a log is truncated: state cannot be rolled back, so it is reloaded from the
        newest remaining snapshot. A snapshot has one batch per producer, so retries of older ones
        are rejected as out of sequence afterwards. It has no ended transactions either, even if
        their markers are above the high watermark; they then count as stable, which is safe because
        the coordinator has decided them and sends a lost marker again. Kafka does both.
        """
        self.clear()
        for entry in entries:
            producer = self._at_epoch(entry.producer_id, entry.epoch)
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.timestamp = entry.timestamp
            producer.transaction_first_offset = entry.transaction_first_offset
            if entry.last_offset >= 0:
                producer.batches.append(_last_batch(entry))
        transactions = sorted(
            (producer.transaction_first_offset, producer_id)
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset >= 0
        )
        self._ongoing.update(transactions)

    def clear(self) -> None:
        """Remove everything, when a log is emptied and restarts at another offset."""
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    def _at_epoch(self, producer_id: int, epoch: int) -> _Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer


def _marker_offset(ended: tuple[int, int]) -> int:
    return ended[1]


def _check_epoch(producer: _Producer, producer_id: int, epoch: int) -> None:
    if epoch < producer.epoch:
        raise InvalidProducerEpoch(
            f"producer {producer_id} has epoch {epoch}, fenced by epoch {producer.epoch}"
        )


def _check_sequence(producer: _Producer, header: BatchHeader) -> None:
    expected = 0
    if header.producer_epoch == producer.epoch and producer.batches:
        # Coordinators write without a sequence (-1), so that 0 comes next after them too.
        expected = (producer.batches[-1].last_sequence + 1) & MAX_SEQUENCE
    if header.base_sequence != expected:
        raise OutOfOrderSequenceNumber(
            f"producer {header.producer_id} in epoch {header.producer_epoch} sent sequence "
            f"{header.base_sequence}, expected {expected}"
        )


def _entry(producer_id: int, producer: _Producer) -> ProducerEntry:
    last = producer.batches[-1] if producer.batches else None
    return ProducerEntry(
        producer_id=producer_id,
        epoch=producer.epoch,
        last_sequence=last.last_sequence if last else NO_SEQUENCE,
        last_offset=last.last_offset if last else NO_OFFSET,
        last_offset_delta=last.last_offset - last.first_offset if last else 0,
        timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        transaction_first_offset=producer.transaction_first_offset,
    )


def _last_batch(entry: ProducerEntry) -> BatchEntry:
    first_sequence = entry.last_sequence
    if first_sequence >= 0:
        first_sequence = (first_sequence - entry.last_offset_delta) & MAX_SEQUENCE
    return BatchEntry(
        first_sequence,
        entry.last_sequence,
        entry.last_offset - entry.last_offset_delta,
        entry.last_offset,
        entry.timestamp,
    )
