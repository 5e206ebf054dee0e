"""Decide EndTxn: commit or abort, for both transaction versions (TX-5, TX-14).

In version 1 a retry is recognized by state and epoch. In version 2 every end raises the epoch, so
the epoch alone identifies a request: the current one ends the ongoing transaction, the previous one
is a retry of the end that raised it.

Note: a version 2 abort without a transaction is legal and raises the epoch too. The client may not
know whether a batch it sent opened a transaction.
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
    """Return the prepared transaction, NONE for a retry, or the error."""
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
    new_producer_id: ProducerId | None,
    *,
    now_ms: int,
) -> TransactionMetadata | NeedsProducerId | ErrorCode:
    """Like `end`, for version 2."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.state.is_prepared:
        # Checked first, because the client may already know a new producer id that is only in force
        # when the markers are written.
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
    if new_producer_id is None:
        return NeedsProducerId()
    return current.ended_with_bump(
        is_commit=request.committed, now_ms=now_ms, next_producer_id=new_producer_id
    )


def answer_to(ended: TransactionMetadata) -> EndTxnResponse:
    """Return producer id and epoch that the client continues with."""
    if ended.next_producer_id == NO_PRODUCER:
        return EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
    return EndTxnResponse(producer_id=ended.next_producer_id, producer_epoch=FIRST_EPOCH)


def _is_repeat(current: TransactionMetadata, request: EndTxnRequest) -> bool:
    """Return whether this is a retry of the end that raised the epoch or used it up.

    The epoch reserved for fencing is only in use after an abort by the coordinator, and no producer
    gets it.
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
    expected = (
        TransactionState.COMPLETE_COMMIT if request.committed else TransactionState.COMPLETE_ABORT
    )
    return ErrorCode.NONE if current.state is expected else ErrorCode.INVALID_TXN_STATE
