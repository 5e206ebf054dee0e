"""The transactional batches of one Produce, and what has to be asked about them (TX-13).

A batch whose transaction is open in its partition is appended like any other. For all those of a
request that would open one, their coordinator is asked once, and each is appended or refused when
the answer is there. What a reader would get wrong: the answer nearly always comes at once, from
this very process, and then the batches are still in the connection's buffer. Only when it does not
are they copied.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.broker.broker import Broker
from headwater.broker.transaction_questions import Codes, FirstBatches
from headwater.coordinator.effects import TransactionalProducer
from headwater.model.errors import ErrorCode
from headwater.model.failures import BatchError, ProducerMappingRefused
from headwater.model.ids import ProducerId
from headwater.records.header import BatchHeader, read_header
from headwater.replication.hosted_partition import HostedPartition
from headwater.replication.transaction_guard import Ticket, produce_code, question_of
from headwater.replication.transactional_batches import (
    UNGUARDED,
    check_ticket,
    heard_no,
    needs_ticket,
    take_ticket,
    written,
)
from headwater.storage.partition_log import PartitionLog

Records = memoryview | bytearray


@dataclass(frozen=True, slots=True)
class TransactionalBatch:
    """One batch of a transaction, on its way into a log."""

    header: BatchHeader
    ticket: Ticket | None

    def check(self, hosted: HostedPartition, log: PartitionLog) -> None:
        """Right before the append. A repeat passes, and is answered as one."""
        header = self.header
        if log.producers.find_duplicate(header) is None:
            check_ticket(
                hosted,
                log,
                self.ticket,
                producer_id=header.producer_id,
                epoch=header.producer_epoch,
                sequence=header.base_sequence,
            )

    def written(self, hosted: HostedPartition) -> None:
        written(hosted, self.header.producer_id)


Append = Callable[[TransactionalBatch, Records], None]
Refuse = Callable[[ErrorCode], None]


@dataclass(slots=True)
class _Unverified:
    """A batch that waits for its coordinator's word."""

    hosted: HostedPartition
    batch: TransactionalBatch
    records: Records
    append: Append
    refuse: Refuse


class TransactionalProduce:
    """See the module. One for each request that has transactional batches."""

    __slots__ = ("_broker", "_producer", "_question", "_transactional_id", "_unverified")

    def __init__(self, broker: Broker, transactional_id: str, version: int) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        self._question = question_of(version)
        self._producer: TransactionalProducer | None = None
        self._unverified: list[_Unverified] = []

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
        hosted: HostedPartition,
        log: PartitionLog,
        records: memoryview,
        *,
        append: Append,
        refuse: Refuse,
    ) -> None:
        """Append a batch at once, if nothing has to be asked; else it waits for `ask`.

        `CorruptBatch` or another failure of the batch's header, if it has none.
        """
        header = read_header(records)
        if not needs_ticket(log, header):
            append(TransactionalBatch(header, None), records)
            return
        if not self._broker.questions.is_asked(self._question):
            append(TransactionalBatch(header, UNGUARDED), records)
            return
        ticket = take_ticket(
            hosted,
            header.producer_id,
            epoch=header.producer_epoch,
            sequence=header.base_sequence,
            question=self._question,
            now_ms=self._broker.clock.now_ms(),
        )
        batch = TransactionalBatch(header, ticket)
        self._unverified.append(_Unverified(hosted, batch, records, append, refuse))

    def ask(self) -> None:
        """All batches of the request have been taken."""
        unverified = self._unverified
        if not unverified:
            return
        assert self._producer is not None
        is_answered = False

        def answered(codes: Codes) -> None:
            nonlocal is_answered
            is_answered = True
            for each in unverified:
                code = produce_code(codes[each.hosted.name], self._question)
                if code:
                    heard_no(each.hosted, each.batch.header.producer_id, code)
                    each.refuse(code)
                else:
                    each.append(each.batch, each.records)

        batches = FirstBatches(
            transactional_id=self._transactional_id,
            producer=self._producer,
            partitions=tuple(each.hosted.name for each in unverified),
            question=self._question,
        )
        self._broker.questions.ask(batches, answered)
        if not is_answered:
            for each in unverified:
                each.records = bytearray(each.records)
