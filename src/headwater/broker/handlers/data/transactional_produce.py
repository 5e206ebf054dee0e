"""Verify the transactional batches of a Produce request (KIP-890, TX-13).

A batch whose transaction is ongoing in its partition is appended like any other, unless earlier
batches of its producer still wait there. All batches of a request that would start a transaction
are verified with one request to the coordinator. If the coordinator is in this process, it usually
answers at once, while the batches are still in the connection's receive buffer; otherwise they are
copied.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.broker.coordinators.pending_verifications import VerifiedTransaction
from headwater.broker.node.broker import Broker
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import BatchError, InvalidProducerIdMapping
from headwater.common.ids import ProducerId
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.records.batch_header import BatchHeader, read_header
from headwater.replication.partition import Partition
from headwater.replication.transaction_verification import (
    VerificationGuard,
    VerificationRequest,
    produce_code,
    verification_request,
)
from headwater.replication.transactional_append import (
    UNGUARDED,
    check_verification,
    needs_verification,
    written,
)
from headwater.storage.log.unified_log import UnifiedLog

Records = memoryview | bytearray


@dataclass(frozen=True, slots=True)
class TransactionalBatch:
    """One transactional batch that is about to be appended."""

    header: BatchHeader
    guard: VerificationGuard | None

    def check(self, hosted: Partition, log: UnifiedLog) -> None:
        """Check the verification right before the append.

        A duplicate passes and is answered as one.
        """
        header = self.header
        if log.producers.find_duplicate(header) is None:
            check_verification(
                hosted,
                log,
                self.guard,
                producer_id=header.producer_id,
                epoch=header.producer_epoch,
                sequence=header.base_sequence,
            )

    def written(self, hosted: Partition) -> None:
        written(hosted, self.header.producer_id)


Append = Callable[[TransactionalBatch, Records], None]
Fail = Callable[[ErrorCode], None]


@dataclass(slots=True)
class _UnverifiedBatch:
    """A batch that waits for verification (`pending_verifications.UnverifiedBatch`)."""

    header: BatchHeader
    verification_request: VerificationRequest
    records: Records
    append: Append
    fail: Fail
    done: Callable[[], None]
    is_done: bool = False

    @property
    def sequence(self) -> int:
        return self.header.base_sequence

    def verified(self, guard: VerificationGuard) -> None:
        self.is_done = True
        self.append(TransactionalBatch(self.header, guard), self.records)
        self.done()

    def failed(self, code: ErrorCode) -> None:
        self.is_done = True
        self.fail(produce_code(code, self.verification_request))
        self.done()


class TransactionalProduce:
    """The transactional batches of one request."""

    __slots__ = (
        "_broker",
        "_pending_count",
        "_producer",
        "_then",
        "_transactional_id",
        "_unverified",
        "_verification_request",
    )

    def __init__(self, broker: Broker, transactional_id: str, version: int) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        self._verification_request = verification_request(version)
        self._producer: TransactionalProducer | None = None
        self._unverified: list[tuple[Partition, _UnverifiedBatch]] = []
        # Batches whose verification is pending, and what to do after the last one.
        self._pending_count = 0
        self._then: Callable[[], None] | None = None

    def check_producer(self, records: memoryview) -> None:
        """Check that all batches have one producer id and epoch, as Kafka 4.1 does."""
        try:
            header = read_header(records)
        except BatchError:
            # `add` reports the error.
            return
        producer = TransactionalProducer(ProducerId(header.producer_id), header.producer_epoch)
        if self._producer not in (None, producer):
            raise InvalidProducerIdMapping(
                "transactional batches of one request have different producer ids or epochs"
            )
        self._producer = producer

    def add(
        self,
        hosted: Partition,
        log: UnifiedLog,
        records: memoryview,
        *,
        append: Append,
        fail: Fail,
    ) -> None:
        """Append a batch at once if it need not wait; otherwise `verify` must follow.

        Raises `CorruptBatch` or another `BatchError` if the header is invalid.
        """
        header = read_header(records)
        manager = self._broker.add_partitions_to_txn_manager
        # Even if the transaction is ongoing by now, earlier batches of its producer come first.
        if not (manager.pending and manager.pending.has_waiting(hosted, self._transaction)):
            if not needs_verification(log, header):
                append(TransactionalBatch(header, None), records)
                return
            if not manager.needs_coordinator(self._verification_request):
                append(TransactionalBatch(header, UNGUARDED), records)
                return
        batch = _UnverifiedBatch(
            header, self._verification_request, records, append, fail, self._batch_done
        )
        self._unverified.append((hosted, batch))

    def verify(self) -> None:
        """Verify the batches that were taken since the last call."""
        unverified, self._unverified = self._unverified, []
        if not unverified:
            return
        self._pending_count += len(unverified)
        self._broker.add_partitions_to_txn_manager.pending.verify(self._transaction, unverified)
        for _, batch in unverified:
            if not batch.is_done:
                batch.records = bytearray(batch.records)

    @property
    def unverified_count(self) -> int:
        """Batches that were taken since the last `verify`."""
        return len(self._unverified)

    @property
    def is_pending(self) -> bool:
        """Whether `verify` was called and some batches are not verified yet."""
        return self._pending_count > 0

    def when_verified(self, then: Callable[[], None]) -> None:
        """Call `then` once no verification is pending. Only while one is."""
        assert self._pending_count
        self._then = then

    def _batch_done(self) -> None:
        self._pending_count -= 1
        then = self._then
        if then is not None and not self._pending_count:
            self._then = None
            then()

    @property
    def _transaction(self) -> VerifiedTransaction:
        assert self._producer is not None
        return VerifiedTransaction(
            transactional_id=self._transactional_id,
            producer=self._producer,
            verification_request=self._verification_request,
        )
