"""Batches and markers of transactions on their way into a leader's log (KIP-890, TX-13).

`transaction_verification` has the rules; here they meet a partition and its log. A batch whose
transaction is already open in the partition needs nothing. Any other one needs a ticket, which is
taken out before its coordinator is asked and held against the guard right before the append.

What a reader would get wrong: whoever writes a batch or a marker of a producer says so by
`written`, also where nobody has asked. A ticket that outlives the marker of its transaction would
let a late batch open one that never ends.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.records.batch_header import BatchHeader
from headwater.replication.partition import Partition
from headwater.replication.transaction_verification import (
    TransactionVerification,
    VerificationGuard,
    VerificationRequest,
)
from headwater.storage.log.unified_log import UnifiedLog

UNGUARDED: Final = VerificationGuard()
"""For whoever has been told not to ask (transaction.partition.verification.enable)."""


def needs_verification(log: UnifiedLog, header: BatchHeader) -> bool:
    """Whether a batch would open a transaction here. A repeat opens nothing, and is answered."""
    producers = log.producers
    return (
        not producers.has_open_transaction(header.producer_id, header.producer_epoch)
        and producers.find_duplicate(header) is None
    )


def begin_verification(
    hosted: Partition,
    producer_id: int,
    *,
    epoch: int,
    sequence: int,
    question: VerificationRequest,
    now_ms: int,
) -> VerificationGuard:
    """For a batch that would open a transaction, before its coordinator is asked."""
    if hosted.guard is None:
        hosted.guard = TransactionVerification()
    return hosted.guard.ask(
        producer_id, epoch=epoch, sequence=sequence, question=question, now_ms=now_ms
    )


def is_current(hosted: Partition, producer_id: int, ticket: VerificationGuard) -> bool:
    """Whether a ticket is still good: no marker of the producer was written since it was taken."""
    return hosted.guard is not None and hosted.guard.is_current(producer_id, ticket)


def check_verification(
    hosted: Partition,
    log: UnifiedLog,
    ticket: VerificationGuard | None,
    *,
    producer_id: int,
    epoch: int,
    sequence: int,
) -> None:
    """Right before the append. `TransactionStateRefused` or `SequenceRefused` if it may not be."""
    producers = log.producers
    if ticket is UNGUARDED or producers.has_open_transaction(producer_id, epoch):
        return
    guard = hosted.guard or TransactionVerification()
    guard.check(
        producer_id,
        ticket,
        sequence=sequence,
        knows_producer=producers.knows(producer_id),
    )


def verification_failed(hosted: Partition, producer_id: int, code: ErrorCode) -> None:
    """The coordinator has said no. A ticket for a producer that it does not know is of no use, and
    whoever makes producers up must not fill the guard with them.
    """
    if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        written(hosted, producer_id)


def written(hosted: Partition, producer_id: int) -> None:
    """A batch or a marker of the producer was appended."""
    if hosted.guard is not None:
        hosted.guard.forget(producer_id)
