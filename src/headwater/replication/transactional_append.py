"""Append batches and markers of transactions to a leader's log (KIP-890, TX-13).

Applies the rules of `transaction_verification` to a partition and its log. A batch whose
transaction is already open in the log needs no verification. Any other needs a guard, created
before the coordinator is asked and checked right before the append.

Invariant: every append of a batch or marker of a producer calls `written`, even without a pending
verification. A guard that outlived the marker of its transaction would let a late batch open a
transaction that never ends.
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
"""Skips the check (`transaction.partition.verification.enable=false`)."""


def needs_verification(log: UnifiedLog, header: BatchHeader) -> bool:
    """Return whether a batch would open a transaction. A duplicate opens none."""
    producers = log.producers
    return (
        not producers.has_open_transaction(header.producer_id, header.producer_epoch)
        and producers.find_duplicate(header) is None
    )


def begin_verification(
    partition: Partition,
    producer_id: int,
    *,
    epoch: int,
    sequence: int,
    request: VerificationRequest,
    now_ms: int,
) -> VerificationGuard:
    """Create the guard for a batch that would open a transaction."""
    if partition.transaction_verification is None:
        partition.transaction_verification = TransactionVerification()
    return partition.transaction_verification.start(
        producer_id, epoch=epoch, sequence=sequence, request=request, now_ms=now_ms
    )


def is_current(partition: Partition, producer_id: int, guard: VerificationGuard) -> bool:
    """Return whether a guard is current: no marker of the producer was appended since."""
    return (
        partition.transaction_verification is not None
        and partition.transaction_verification.is_current(producer_id, guard)
    )


def check_verification(
    partition: Partition,
    log: UnifiedLog,
    guard: VerificationGuard | None,
    *,
    producer_id: int,
    epoch: int,
    sequence: int,
) -> None:
    """Check the guard right before the append.

    Raises `InvalidTxnState` or `OutOfOrderSequenceNumber`.
    """
    producers = log.producers
    if guard is UNGUARDED or producers.has_open_transaction(producer_id, epoch):
        return
    verification = partition.transaction_verification or TransactionVerification()
    verification.check(
        producer_id,
        guard,
        sequence=sequence,
        knows_producer=producers.has_producer(producer_id),
    )


def verification_failed(partition: Partition, producer_id: int, code: ErrorCode) -> None:
    """The coordinator rejected it: drop the guard of an unknown producer id.

    Otherwise a client could fill the memory with invented producer ids.
    """
    if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        written(partition, producer_id)


def written(partition: Partition, producer_id: int) -> None:
    """A batch or marker of the producer was appended: its guard is void."""
    if partition.transaction_verification is not None:
        partition.transaction_verification.forget(producer_id)
