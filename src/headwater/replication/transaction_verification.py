"""Verify the first batch of a transaction with its coordinator (KIP-890).

TX-13: a transactional batch may only be appended if its coordinator knows that the partition is in
the transaction. Otherwise no marker would ever be written, and read_committed consumers would wait
forever. The leader asks the coordinator before the first batch. It creates a verification guard for
the request and appends the batch only if that guard is still current: a marker that arrives in
between invalidates it.

Note: the guard stays when verification fails. It remembers the lowest rejected sequence, and later
batches that the client has already sent are rejected as out of order until that one is appended.
Otherwise the second batch of a transaction could become its first.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidTxnState, OutOfOrderSequenceNumber
from headwater.common.ids import NO_SEQUENCE

_ABORTABLE_SINCE: Final = 11
_ADDS_SINCE: Final = 12
_COMMIT_ABORTABLE_SINCE: Final = 4
_COMMIT_ADDS_SINCE: Final = 5
_EPOCH_BUMPS: Final = 2

_RETRIED_BY_OLD_CLIENTS: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class VerificationRequest(Enum):
    """What a leader asks the coordinator, by the version of the Produce request."""

    VERIFY = "verify"
    VERIFY_ABORTABLE = "verify, for a client that knows TRANSACTION_ABORTABLE"
    ADD = "add"

    @property
    def is_verify_only(self) -> bool:
        return self is not VerificationRequest.ADD


def verification_request(produce_version: int) -> VerificationRequest:
    if produce_version >= _ADDS_SINCE:
        return VerificationRequest.ADD
    return (
        VerificationRequest.VERIFY_ABORTABLE
        if produce_version >= _ABORTABLE_SINCE
        else VerificationRequest.VERIFY
    )


def commit_verification_request(commit_version: int) -> VerificationRequest:
    """The same for TxnOffsetCommit."""
    if commit_version >= _COMMIT_ADDS_SINCE:
        return VerificationRequest.ADD
    is_new = commit_version >= _COMMIT_ABORTABLE_SINCE
    return VerificationRequest.VERIFY_ABORTABLE if is_new else VerificationRequest.VERIFY


def commit_code(error: ErrorCode, request: VerificationRequest) -> ErrorCode:
    """Map the coordinator's error to one for TxnOffsetCommit, as Kafka 4.1 does."""
    if error is ErrorCode.NETWORK_EXCEPTION:
        # Older clients do not expect NETWORK_EXCEPTION here; this error makes them retry.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _known_to_producers(error, request)


def produce_code(error: ErrorCode, request: VerificationRequest) -> ErrorCode:
    """Map the coordinator's error to one for Produce, as Kafka 4.1 does.

    Clients do not expect coordinator errors in a Produce response, so these become an error that
    makes them retry without a metadata request.
    """
    if error in _RETRIED_BY_OLD_CLIENTS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and request.is_verify_only:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return _known_to_producers(error, request)


def _known_to_producers(error: ErrorCode, request: VerificationRequest) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and request is VerificationRequest.VERIFY:
        return ErrorCode.INVALID_TXN_STATE
    return error


def late_marker_error(client_version: int, *, has_open_transaction: bool) -> ErrorCode | None:
    """Return the error for a late marker, if its epoch has an open transaction.

    With transaction version 2 a marker has the epoch after that of its batches. A transaction that
    is open in the marker's own epoch is therefore the next one, and the marker is a late copy that
    would end it too early. Kafka 4.1 accepts it; later versions send the transaction version along
    (KIP-1228), as coordinators do here. Without an open transaction the marker is appended again
    and ends nothing.
    """
    is_late = client_version >= _EPOCH_BUMPS and has_open_transaction
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_late else None


class VerificationGuard:
    """Permission to append the first batch of a transaction, while it is current.

    Guards compare by identity: a broker that led the partition before and leads it again may still
    receive an error from the earlier term.
    """

    __slots__ = ()


@dataclass(slots=True)
class _PendingVerification:
    guard: VerificationGuard
    epoch: int
    lowest_sequence: int
    request: VerificationRequest
    started_ms: int


class TransactionVerification:
    """Pending verifications of one partition, by producer id.

    Use only while the producer has no open transaction in the log.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: dict[int, _PendingVerification] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def start(
        self,
        producer_id: int,
        *,
        epoch: int,
        sequence: int,
        request: VerificationRequest,
        now_ms: int,
    ) -> VerificationGuard:
        """Return the guard for a batch whose transaction is not open here yet."""
        pending = self._pending.get(producer_id)
        if pending is None:
            pending = _PendingVerification(VerificationGuard(), epoch, sequence, request, now_ms)
            self._pending[producer_id] = pending
        elif epoch > pending.epoch:
            pending.epoch, pending.lowest_sequence = epoch, sequence
        elif epoch == pending.epoch:
            pending.lowest_sequence = min(pending.lowest_sequence, sequence)
        return pending.guard

    def check(
        self,
        producer_id: int,
        guard: VerificationGuard | None,
        *,
        sequence: int,
        knows_producer: bool,
    ) -> None:
        """Before the append, reject a batch that would open an unverified transaction.

        `knows_producer`: whether the log has state of the producer. Batches of coordinators have no
        sequence to check (IDP-9).
        """
        pending = self._pending.get(producer_id)
        if pending is None or pending.guard is not guard:
            raise InvalidTxnState(
                f"producer {producer_id} has no verified transaction in this partition"
            )
        if sequence == NO_SEQUENCE:
            return
        must_be_first = pending.request is VerificationRequest.ADD and not knows_producer
        if sequence > pending.lowest_sequence or (must_be_first and sequence != 0):
            expected = 0 if must_be_first else pending.lowest_sequence
            raise OutOfOrderSequenceNumber(
                f"producer {producer_id} sent sequence {sequence} as the first of a transaction, "
                f"expected {expected}"
            )

    def is_current(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Return whether the guard is current: no batch or marker was appended since."""
        pending = self._pending.get(producer_id)
        return pending is not None and pending.guard is guard

    def forget(self, producer_id: int) -> None:
        """Invalidate the guard after a batch or marker of the producer was appended."""
        self._pending.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop verifications older than `producer.id.expiration.ms`."""
        old = [
            producer_id
            for producer_id, pending in self._pending.items()
            if now_ms - pending.started_ms >= expiration_ms
        ]
        for producer_id in old:
            del self._pending[producer_id]
