"""Verification of the first batch of a transaction."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidTxnState, OutOfOrderSequenceNumber
from headwater.replication.transaction_verification import (
    TransactionVerification,
    VerificationGuard,
    VerificationRequest,
    commit_code,
    commit_verification_request,
    late_marker_error,
    produce_code,
    verification_request,
)


def ask(
    guard: TransactionVerification,
    sequence: int,
    epoch: int = 0,
    question: VerificationRequest = VerificationRequest.VERIFY,
) -> VerificationGuard:
    return guard.start(9, epoch=epoch, sequence=sequence, request=question, now_ms=100)


def check(
    guard: TransactionVerification,
    ticket: VerificationGuard | None,
    sequence: int,
    *,
    knows_producer: bool = True,
) -> None:
    guard.check(9, ticket, sequence=sequence, knows_producer=knows_producer)


def test_without_a_guard_no_transaction_is_opened() -> None:
    """TX-13."""
    guard = TransactionVerification()
    with pytest.raises(InvalidTxnState):
        check(guard, None, 0)
    with pytest.raises(InvalidTxnState):
        check(guard, VerificationGuard(), 0)
    check(guard, ask(guard, 0), 0)


def test_a_marker_between_request_and_response_invalidates_the_guard() -> None:
    """TX-13. Also if the next transaction has been verified in the meantime."""
    guard = TransactionVerification()
    ticket = ask(guard, 0)
    assert guard.is_current(9, ticket)
    guard.forget(9)
    assert not guard.is_current(9, ticket)
    with pytest.raises(InvalidTxnState):
        check(guard, ticket, 0)
    newer = ask(guard, 0)
    assert guard.is_current(9, newer)
    assert not guard.is_current(9, ticket)
    with pytest.raises(InvalidTxnState):
        check(guard, ticket, 0)
    check(guard, newer, 0)


def test_batches_sent_together_share_a_guard_and_keep_their_order() -> None:
    """TX-13, IDP-6. The second waits until the first, whose verification failed, is written."""
    guard = TransactionVerification()
    first, second = ask(guard, 5), ask(guard, 8)
    assert first == second
    with pytest.raises(OutOfOrderSequenceNumber):
        check(guard, second, 8)
    check(guard, first, 5)
    guard.forget(9)
    assert len(guard) == 0


def test_a_lower_sequence_or_a_newer_epoch_comes_first() -> None:
    """TX-13."""
    guard = TransactionVerification()
    ticket = ask(guard, 5)
    ask(guard, 3)
    with pytest.raises(OutOfOrderSequenceNumber):
        check(guard, ticket, 5)
    ask(guard, 7, epoch=1)
    check(guard, ticket, 7)
    ask(guard, 0, epoch=0)
    check(guard, ticket, 7)


def test_an_unknown_producer_of_version_2_starts_at_sequence_0() -> None:
    """IDP-6."""
    guard = TransactionVerification()
    ticket = ask(guard, 5, question=VerificationRequest.ADD)
    check(guard, ticket, 5)
    with pytest.raises(OutOfOrderSequenceNumber):
        check(guard, ticket, 5, knows_producer=False)
    older = TransactionVerification()
    check(older, ask(older, 5), 5, knows_producer=False)


def test_verifications_that_led_to_no_batch_expire() -> None:
    guard = TransactionVerification()
    ask(guard, 0)
    guard.expire(now_ms=199, expiration_ms=100)
    assert len(guard) == 1
    guard.expire(now_ms=200, expiration_ms=100)
    assert len(guard) == 0


def test_the_produce_version_determines_the_verification_request() -> None:
    """TX-13, TX-14."""
    questions = [verification_request(version) for version in (10, 11, 12, 13)]
    abortable = VerificationRequest.VERIFY_ABORTABLE
    assert questions == [
        VerificationRequest.VERIFY,
        abortable,
        VerificationRequest.ADD,
        VerificationRequest.ADD,
    ]


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ("INVALID_TXN_STATE", "TRANSACTION_ABORTABLE")),
        (ErrorCode.PRODUCER_FENCED, ("INVALID_PRODUCER_EPOCH",) * 2),
        (ErrorCode.NOT_COORDINATOR, ("NOT_ENOUGH_REPLICAS",) * 2),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ("NOT_ENOUGH_REPLICAS",) * 2),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ("NOT_ENOUGH_REPLICAS",) * 2),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ("INVALID_PRODUCER_ID_MAPPING",) * 2),
    ],
)
def test_verification_errors_are_mapped_to_errors_that_producers_know(
    answer: ErrorCode, codes: tuple[str, str]
) -> None:
    """TX-13."""
    questions = (VerificationRequest.VERIFY, VerificationRequest.VERIFY_ABORTABLE)
    assert tuple(produce_code(answer, each).name for each in questions) == codes


def test_a_version_2_client_waits_for_its_last_transaction() -> None:
    """TX-14."""
    concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
    assert produce_code(concurrent, VerificationRequest.ADD) is concurrent


def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    """TX-14, KIP-1228. In version 1 both have the same epoch and cannot be distinguished."""
    late = ErrorCode.INVALID_PRODUCER_EPOCH
    assert late_marker_error(2, has_open_transaction=True) is late
    assert late_marker_error(2, has_open_transaction=False) is None
    assert late_marker_error(0, has_open_transaction=True) is None


@pytest.mark.parametrize(
    ("version", "question"),
    [
        (3, VerificationRequest.VERIFY),
        (4, VerificationRequest.VERIFY_ABORTABLE),
        (5, VerificationRequest.ADD),
    ],
)
def test_the_commit_version_determines_the_verification_request(
    version: int, question: VerificationRequest
) -> None:
    """TX-13, TX-14."""
    assert commit_verification_request(version) is question


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ("INVALID_TXN_STATE", "TRANSACTION_ABORTABLE")),
        (ErrorCode.PRODUCER_FENCED, ("INVALID_PRODUCER_EPOCH",) * 2),
        (ErrorCode.NETWORK_EXCEPTION, ("COORDINATOR_LOAD_IN_PROGRESS",) * 2),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ("CONCURRENT_TRANSACTIONS",) * 2),
    ],
)
def test_verification_errors_are_mapped_to_errors_that_committers_know(
    answer: ErrorCode, codes: tuple[str, str]
) -> None:
    questions = (VerificationRequest.VERIFY, VerificationRequest.VERIFY_ABORTABLE)
    assert tuple(commit_code(answer, each).name for each in questions) == codes


def test_a_batch_of_a_coordinator_has_no_sequence_to_check() -> None:
    """IDP-9: offsets are written without one."""
    guard = TransactionVerification()
    ticket = guard.start(1, epoch=0, sequence=-1, request=VerificationRequest.ADD, now_ms=0)
    guard.check(1, ticket, sequence=-1, knows_producer=False)
    with pytest.raises(InvalidTxnState):
        guard.check(1, None, sequence=-1, knows_producer=False)
