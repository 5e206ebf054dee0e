"""Batches and markers of transactions on their way into a leader's log (KIP-890, TX-13).

`transaction_guard` has the rules; here they meet a partition and its log. A batch whose transaction
is already open in the partition needs nothing. Any other one needs a ticket, which is taken out
before its coordinator is asked and held against the guard right before the append.

What a reader would get wrong: whoever writes a batch or a marker of a producer says so by
`written`, also where nobody has asked. A ticket that outlives the marker of its transaction would
let a late batch open one that never ends.
"""

from typing import Final

from headwater.model.errors import ErrorCode
from headwater.records.header import BatchHeader
from headwater.replication.hosted_partition import HostedPartition
from headwater.replication.transaction_guard import Question, Ticket, TransactionGuard
from headwater.storage.partition_log import PartitionLog

UNGUARDED: Final = Ticket()
"""For whoever has been told not to ask (transaction.partition.verification.enable)."""


def needs_ticket(log: PartitionLog, header: BatchHeader) -> bool:
    """Whether a batch would open a transaction here. A repeat opens nothing, and is answered."""
    producers = log.producers
    return (
        not producers.has_open_transaction(header.producer_id, header.producer_epoch)
        and producers.find_duplicate(header) is None
    )


def take_ticket(
    hosted: HostedPartition,
    producer_id: int,
    *,
    epoch: int,
    sequence: int,
    question: Question,
    now_ms: int,
) -> Ticket:
    """For a batch that would open a transaction, before its coordinator is asked."""
    if hosted.guard is None:
        hosted.guard = TransactionGuard()
    return hosted.guard.ask(
        producer_id, epoch=epoch, sequence=sequence, question=question, now_ms=now_ms
    )


def is_current(hosted: HostedPartition, producer_id: int, ticket: Ticket) -> bool:
    """Whether a ticket is still good: no marker of the producer was written since it was taken."""
    return hosted.guard is not None and hosted.guard.is_current(producer_id, ticket)


def check_ticket(
    hosted: HostedPartition,
    log: PartitionLog,
    ticket: Ticket | None,
    *,
    producer_id: int,
    epoch: int,
    sequence: int,
) -> None:
    """Right before the append. `TransactionStateRefused` or `SequenceRefused` if it may not be."""
    producers = log.producers
    if ticket is UNGUARDED or producers.has_open_transaction(producer_id, epoch):
        return
    guard = hosted.guard or TransactionGuard()
    guard.check(
        producer_id,
        ticket,
        sequence=sequence,
        knows_producer=producers.knows(producer_id),
    )


def heard_no(hosted: HostedPartition, producer_id: int, code: ErrorCode) -> None:
    """The coordinator has said no. A ticket for a producer that it does not know is of no use, and
    whoever makes producers up must not fill the guard with them.
    """
    if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        written(hosted, producer_id)


def written(hosted: HostedPartition, producer_id: int) -> None:
    """A batch or a marker of the producer was appended."""
    if hosted.guard is not None:
        hosted.guard.forget(producer_id)
