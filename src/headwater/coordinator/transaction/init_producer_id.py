"""Decide InitProducerId with a transactional id (TX-2, TX-3).

A producer without a producer id takes over, and an earlier producer of the transactional id is
fenced by the higher epoch. One that sends its producer id and epoch continues after an error
(KIP-360), unless another has taken over in the meantime.

Note: an ongoing transaction is aborted, and the producer is told to retry. No producer gets the
epoch of that abort; the retry raises it once more.
"""

from typing import NamedTuple

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NO_PRODUCER, ProducerId
from headwater.coordinator.transaction.transaction_metadata import (
    FIRST_EPOCH,
    LAST_USABLE_EPOCH,
    NeedsProducerId,
    TransactionMetadata,
    is_exhausted,
    known_to_client,
)
from headwater.coordinator.transaction.transaction_settings import TransactionSettings
from headwater.coordinator.transaction.transaction_states import TransactionState
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

FENCED_SINCE_VERSION = 4
"""Older clients of InitProducerId do not know PRODUCER_FENCED."""


class InitProducerIdRequestState(NamedTuple):
    """Producer id and epoch that a producer claims to have."""

    producer_id: ProducerId
    epoch: int


def validate_request(
    request: InitProducerIdRequest, settings: TransactionSettings
) -> ErrorCode | None:
    """Check a request without its transactional id's state."""
    has_id, has_epoch = request.producer_id != NO_PRODUCER, request.producer_epoch != NO_EPOCH
    if has_id != has_epoch or not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.enable2_pc:
        # As in Kafka 4.1 while transaction.two.phase.commit.enable is off.
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if not 0 < request.transaction_timeout_ms <= settings.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None


def error_response(version: int, code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=known_to_client(code, version, fenced_since=FENCED_SINCE_VERSION),
        producer_id=NO_PRODUCER,
        producer_epoch=NO_EPOCH,
    )


def claim_of(request: InitProducerIdRequest) -> InitProducerIdRequestState | None:
    if request.producer_id == NO_PRODUCER:
        return None
    return InitProducerIdRequestState(ProducerId(request.producer_id), request.producer_epoch)


def init_producer_id(
    current: TransactionMetadata | None,
    request: InitProducerIdRequest,
    new_producer_id: ProducerId | None,
    *,
    server_version: int,
    now_ms: int,
) -> TransactionMetadata | NeedsProducerId | ErrorCode:
    """Return the next state of the transactional id, or the error.

    If that is an abort, the request must be answered with CONCURRENT_TRANSACTIONS.
    """
    claim, timeout_ms = claim_of(request), request.transaction_timeout_ms
    if current is None:
        assert request.transactional_id
        return _first(
            request.transactional_id, new_producer_id, timeout_ms=timeout_ms, now_ms=now_ms
        )
    if current.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if claim is not None and not _is_valid_claim(current, claim):
        return ErrorCode.PRODUCER_FENCED
    if current.state is TransactionState.ONGOING:
        return current.fenced(server_version=server_version, now_ms=now_ms)
    if claim is None or claim.epoch == current.producer_epoch:
        last_epoch = NO_EPOCH if claim is None else claim.epoch
        return _next_epoch(
            current, last_epoch, new_producer_id, timeout_ms=timeout_ms, now_ms=now_ms
        )
    if claim.epoch != current.last_producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.producer_epoch > LAST_USABLE_EPOCH:
        # The epoch reserved for fencing was used against this producer; no producer has it.
        return _next_epoch(
            current, claim.epoch, new_producer_id, timeout_ms=timeout_ms, now_ms=now_ms
        )
    # A retry of a request whose response was lost. No other producer can have come since, because
    # that resets the last epoch.
    return current.initialised(
        epoch=current.producer_epoch,
        last_epoch=current.last_producer_epoch,
        timeout_ms=timeout_ms,
        now_ms=now_ms,
    )


def _first(
    transactional_id: str, new_producer_id: ProducerId | None, *, timeout_ms: int, now_ms: int
) -> TransactionMetadata | NeedsProducerId:
    """An unknown or expired id; the producer's claim does not count."""
    if new_producer_id is None:
        return NeedsProducerId()
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=new_producer_id,
        producer_epoch=FIRST_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        last_update_ms=now_ms,
        previous_producer_id=new_producer_id,
    )


def _is_valid_claim(current: TransactionMetadata, claim: InitProducerIdRequestState) -> bool:
    """Whether it is the current id, or the previous one with exhausted epochs."""
    if claim.producer_id == current.producer_id:
        return True
    return claim.producer_id == current.previous_producer_id and is_exhausted(claim.epoch)


def _next_epoch(
    current: TransactionMetadata,
    last_epoch: int,
    new_producer_id: ProducerId | None,
    *,
    timeout_ms: int,
    now_ms: int,
) -> TransactionMetadata | NeedsProducerId:
    if not current.is_exhausted:
        return current.initialised(
            epoch=current.producer_epoch + 1,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
        )
    if new_producer_id is None:
        return NeedsProducerId()
    return current.rotated(
        new_producer_id, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms
    )
