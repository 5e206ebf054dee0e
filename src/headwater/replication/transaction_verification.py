"""The leader's guard over the first batch of a transaction in one partition (KIP-890, TX-13).

A transactional batch may only be written if its coordinator knows that the partition is in the
transaction; otherwise no marker would ever come, and readers of committed records would wait for
ever. So before the first batch the leader asks. Its question takes a ticket out, and the batch is
written only if the ticket is still the one: a marker that arrives in between takes it away.

What a reader would get wrong: a ticket is kept when the question fails. It remembers the lowest
sequence that was refused, and batches behind that one, which the client has already sent, are out
of order until it is written. Without that the second batch of a transaction could be its first.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import SequenceRefused, TransactionStateRefused
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


def commit_code(answer: ErrorCode, question: VerificationRequest) -> ErrorCode:
    """What a TxnOffsetCommit is told when the coordinator's answer is no. Kafka does this (4.1)."""
    if answer is ErrorCode.NETWORK_EXCEPTION:
        # Older clients know no such error here, and this one makes them try again.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _known_to_producers(answer, question)


def produce_code(answer: ErrorCode, question: VerificationRequest) -> ErrorCode:
    """What a Produce is told when the coordinator's answer is no.

    Clients do not expect errors of coordinators from a Produce, so these become one that makes
    them try again without asking for metadata. Kafka does this (4.1).
    """
    if answer in _RETRIED_BY_OLD_CLIENTS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if answer is ErrorCode.CONCURRENT_TRANSACTIONS and question.is_verify_only:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return _known_to_producers(answer, question)


def _known_to_producers(answer: ErrorCode, question: VerificationRequest) -> ErrorCode:
    if answer is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if answer is ErrorCode.TRANSACTION_ABORTABLE and question is VerificationRequest.VERIFY:
        return ErrorCode.INVALID_TXN_STATE
    return answer


def refuse_late(client_version: int, *, has_open_transaction: bool) -> ErrorCode | None:
    """Whether a leader may write a marker, if a transaction of the marker's own epoch is open.

    In version 2 a marker has the epoch after that of the batches it ends. So what is open in its
    own epoch is the next transaction, and the marker a late copy, which would end it too early.
    Kafka 4.1 lets it; its successor sends the version along (KIP-1228), as coordinators do here.
    Without an open transaction a copy is written again, and ends nothing.
    """
    is_late = client_version >= _EPOCH_BUMPS and has_open_transaction
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_late else None


class VerificationGuard:
    """The right to write the first batch, if it is still the one that the guard knows.

    No two are equal, also of guards that follow each other: a broker that has led before, and leads
    again, may still be owed an answer from then.
    """

    __slots__ = ()


@dataclass(slots=True)
class _Asked:
    ticket: VerificationGuard
    epoch: int
    lowest_sequence: int
    question: VerificationRequest
    asked_ms: int


class TransactionVerification:
    """The open questions of one partition, by producer. Ask only while no transaction is open."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[int, _Asked] = {}

    def __len__(self) -> int:
        return len(self._asked)

    def ask(
        self,
        producer_id: int,
        *,
        epoch: int,
        sequence: int,
        question: VerificationRequest,
        now_ms: int,
    ) -> VerificationGuard:
        """The ticket for a batch whose transaction is not open here yet."""
        asked = self._asked.get(producer_id)
        if asked is None:
            asked = _Asked(VerificationGuard(), epoch, sequence, question, now_ms)
            self._asked[producer_id] = asked
        elif epoch > asked.epoch:
            asked.epoch, asked.lowest_sequence = epoch, sequence
        elif epoch == asked.epoch:
            asked.lowest_sequence = min(asked.lowest_sequence, sequence)
        return asked.ticket

    def check(
        self,
        producer_id: int,
        ticket: VerificationGuard | None,
        *,
        sequence: int,
        knows_producer: bool,
    ) -> None:
        """Refuse a batch that would open a transaction, right before it is written.

        `knows_producer` says whether the log remembers anything of it. A coordinator's batch has
        no sequence that could be wrong (IDP-9).
        """
        asked = self._asked.get(producer_id)
        if asked is None or asked.ticket is not ticket:
            raise TransactionStateRefused(
                f"producer {producer_id} may not open a transaction that is not verified"
            )
        if sequence == NO_SEQUENCE:
            return
        must_be_first = asked.question is VerificationRequest.ADD and not knows_producer
        if sequence > asked.lowest_sequence or (must_be_first and sequence != 0):
            expected = 0 if must_be_first else asked.lowest_sequence
            raise SequenceRefused(
                f"producer {producer_id} sent sequence {sequence} to open a transaction, "
                f"where {expected} comes next"
            )

    def is_current(self, producer_id: int, ticket: VerificationGuard) -> bool:
        """Whether no marker has been written since the ticket was taken."""
        asked = self._asked.get(producer_id)
        return asked is not None and asked.ticket is ticket

    def forget(self, producer_id: int) -> None:
        """A batch of the producer was written, or a marker: no ticket is good any more."""
        self._asked.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget questions that led to nothing, as long ago as producers are forgotten."""
        old = [
            producer_id
            for producer_id, asked in self._asked.items()
            if now_ms - asked.asked_ms >= expiration_ms
        ]
        for producer_id in old:
            del self._asked[producer_id]
