"""EndTxn: commit or abort, for clients of both versions of transactions (TX-5, TX-14).

In version 1 a repeat is known by state and epoch. In version 2 every end raises the epoch, so the
epoch alone says what a request means: the present one ends what is going on now, the one before
repeats the end that raised it.

What a reader would get wrong: an abort of version 2 without a transaction is legal, and raises the
epoch too. The client may have sent a batch of which it does not know whether it opened one.
"""

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_PRODUCER, ProducerId
from headwater.coordinator.transaction.transaction_metadata import (
    FIRST_EPOCH,
    LAST_USABLE_EPOCH,
    NeedsProducerId,
    TransactionMetadata,
)
from headwater.coordinator.transaction.transaction_states import TransactionState
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE_VERSION = 2
"""Older clients of EndTxn do not know PRODUCER_FENCED."""

BUMPS_SINCE_VERSION = 5


def end(
    current: TransactionMetadata | None, request: EndTxnRequest, *, now_ms: int
) -> TransactionMetadata | ErrorCode:
    """The decided transaction; NONE for a repeat of what is done already; or why not."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if current is None or current.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is TransactionState.ONGOING:
        return current.ended(is_commit=request.committed, now_ms=now_ms)
    return _as_completed(current, request)


def end_with_bump(
    current: TransactionMetadata | None,
    request: EndTxnRequest,
    fresh: ProducerId | None,
    *,
    now_ms: int,
) -> TransactionMetadata | NeedsProducerId | ErrorCode:
    """As `end`, for version 2."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.state.is_prepared:
        # Asked first, because the client may already have heard of a new producer id that
        # comes into force only when the markers are written.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state.is_complete and _is_repeat(current, request):
        return _as_completed(current, request)
    if current.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if request.committed and current.state is not TransactionState.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    if not current.is_exhausted:
        return current.ended_with_bump(is_commit=request.committed, now_ms=now_ms)
    if fresh is None:
        return NeedsProducerId()
    return current.ended_with_bump(
        is_commit=request.committed, now_ms=now_ms, next_producer_id=fresh
    )


def answer_to(ended: TransactionMetadata) -> EndTxnResponse:
    """The producer id and epoch that the client goes on with."""
    if ended.next_producer_id == NO_PRODUCER:
        return EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
    return EndTxnResponse(producer_id=ended.next_producer_id, producer_epoch=FIRST_EPOCH)


def _is_repeat(current: TransactionMetadata, request: EndTxnRequest) -> bool:
    """The end that has raised the epoch, or has used it up, comes once more.

    The epoch kept for fencing is in force only if the coordinator itself has aborted, and cannot
    be given to a producer.
    """
    if current.producer_id == request.producer_id:
        is_next = current.producer_epoch == request.producer_epoch + 1
        return is_next and current.producer_epoch <= LAST_USABLE_EPOCH
    return (
        current.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_USABLE_EPOCH
        and current.producer_epoch == FIRST_EPOCH
    )


def _as_completed(current: TransactionMetadata, request: EndTxnRequest) -> ErrorCode:
    wanted = (
        TransactionState.COMPLETE_COMMIT if request.committed else TransactionState.COMPLETE_ABORT
    )
    return ErrorCode.NONE if current.state is wanted else ErrorCode.INVALID_TXN_STATE
