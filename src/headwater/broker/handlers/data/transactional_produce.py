"""The transactional batches of one Produce, and their verification (TX-13).

A batch whose transaction is open in its partition is appended like any other, unless earlier
batches of its producer still wait there. For all batches of a request that would open a
transaction, the coordinator is asked once. If the coordinator is in this process, the answer
usually comes at once, while the batches are still in the connection's buffer; they are copied only
if it does not.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.broker.coordinators.pending_verifications import VerifiedTransaction
from headwater.broker.node.broker import Broker
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import BatchError, ProducerMappingRefused
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
    """One batch of a transaction, on its way into a log."""

    header: BatchHeader
    ticket: VerificationGuard | None

    def check(self, hosted: Partition, log: UnifiedLog) -> None:
        """Right before the append. A repeat passes, and is answered as one."""
        header = self.header
        if log.producers.find_duplicate(header) is None:
            check_verification(
                hosted,
                log,
                self.ticket,
                producer_id=header.producer_id,
                epoch=header.producer_epoch,
                sequence=header.base_sequence,
            )

    def written(self, hosted: Partition) -> None:
        written(hosted, self.header.producer_id)


Append = Callable[[TransactionalBatch, Records], None]
Refuse = Callable[[ErrorCode], None]


@dataclass(slots=True)
class _Unverified:
    """A batch that waits (`headwater.broker.coordinators.pending_verifications.WaitingBatch`)."""

    header: BatchHeader
    question: VerificationRequest
    records: Records
    append: Append
    refuse: Refuse
    is_settled: bool = False

    @property
    def sequence(self) -> int:
        return self.header.base_sequence

    def verified(self, ticket: VerificationGuard) -> None:
        self.is_settled = True
        self.append(TransactionalBatch(self.header, ticket), self.records)

    def refused(self, code: ErrorCode) -> None:
        self.is_settled = True
        self.refuse(produce_code(code, self.question))


class TransactionalProduce:
    """See the module. One for each request that has transactional batches."""

    __slots__ = ("_broker", "_producer", "_question", "_transactional_id", "_unverified")

    def __init__(self, broker: Broker, transactional_id: str, version: int) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        self._question = verification_request(version)
        self._producer: TransactionalProducer | None = None
        self._unverified: list[tuple[Partition, _Unverified]] = []

    def look_at(self, records: memoryview) -> None:
        """Before anything is taken: a request has one producer. Kafka does this (4.1)."""
        try:
            header = read_header(records)
        except BatchError:
            # What is wrong with it is said when it is taken.
            return
        producer = TransactionalProducer(ProducerId(header.producer_id), header.producer_epoch)
        if self._producer not in (None, producer):
            raise ProducerMappingRefused("the batches of a transaction have several producers")
        self._producer = producer

    def take(
        self,
        hosted: Partition,
        log: UnifiedLog,
        records: memoryview,
        *,
        append: Append,
        refuse: Refuse,
    ) -> None:
        """Append a batch at once, if it has to wait for nothing; else `ask` must follow.

        `CorruptBatch` or another failure of the batch's header, if it has none.
        """
        header = read_header(records)
        questions = self._broker.questions
        # Even if the transaction is open by now, earlier batches of its producer come first.
        if not (questions.pending and questions.pending.has_waiting(hosted, self._transaction)):
            if not needs_verification(log, header):
                append(TransactionalBatch(header, None), records)
                return
            if not questions.is_asked(self._question):
                append(TransactionalBatch(header, UNGUARDED), records)
                return
        batch = _Unverified(header, self._question, records, append, refuse)
        self._unverified.append((hosted, batch))

    def ask(self) -> None:
        """All batches of the request have been taken."""
        if not self._unverified:
            return
        self._broker.questions.pending.verify(self._transaction, self._unverified)
        for _, batch in self._unverified:
            if not batch.is_settled:
                batch.records = bytearray(batch.records)

    @property
    def _transaction(self) -> VerifiedTransaction:
        assert self._producer is not None
        return VerifiedTransaction(
            transactional_id=self._transactional_id,
            producer=self._producer,
            question=self._question,
        )
