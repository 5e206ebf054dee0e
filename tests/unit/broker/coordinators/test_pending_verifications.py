"""Batches that wait until their coordinator has verified their partition."""

from dataclasses import dataclass, field, replace

from headwater.broker.coordinators.pending_verifications import (
    FirstBatches,
    OnVerified,
    PendingVerifications,
    VerifiedTransaction,
)
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.replication.partition import Partition
from headwater.replication.transaction_verification import VerificationGuard, VerificationRequest
from headwater.replication.transactional_append import is_current, written
from tests.simulation.labs.broker_lab import BrokerLab

PRODUCER = TransactionalProducer(ProducerId(7), 3)
ADD = VerifiedTransaction(
    transactional_id="x", producer=PRODUCER, verification_request=VerificationRequest.ADD
)
VERIFY = replace(ADD, verification_request=VerificationRequest.VERIFY)
BACKOFF_MS, TIMEOUT_MS = 20, 100
"""The defaults of add.partitions.to.txn.retry.backoff.ms and its maximum."""


@dataclass(slots=True)
class Batch:
    sequence: int
    outcomes: list[tuple[int, str]]
    hosted: Partition

    def verified(self, ticket: VerificationGuard) -> None:
        is_good = is_current(self.hosted, PRODUCER.producer_id, ticket)
        self.outcomes.append((self.sequence, "verified" if is_good else "stale"))

    def failed(self, code: ErrorCode) -> None:
        self.outcomes.append((self.sequence, code.name))


@dataclass(slots=True)
class Lab:
    """A leader of two partitions whose coordinator answers when the test says so."""

    lab: BrokerLab = field(default_factory=BrokerLab)
    asked: list[tuple[FirstBatches, OnVerified]] = field(default_factory=list)
    outcomes: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lab.create("t", 2)
        broker = self.lab.broker
        self.pending = PendingVerifications(
            lambda batches, answered: self.asked.append((batches, answered)),
            clock=broker.clock,
            timer=broker.timer,
        )
        self.pending.configure(broker.static.settings)

    pending: PendingVerifications = field(init=False)

    def hosted(self, number: int = 0) -> Partition:
        found = self.lab.broker.partitions.find("t", number)
        assert found is not None
        return found

    def send(self, sequence: int, transaction: VerifiedTransaction = ADD) -> None:
        batch = Batch(sequence, self.outcomes, self.hosted())
        self.pending.verify(transaction, [(self.hosted(), batch)])

    def write_marker(self) -> None:
        written(self.hosted(), PRODUCER.producer_id)

    def answer(self, code: ErrorCode) -> None:
        """Answer the oldest pending request."""
        batches, answered = self.asked.pop(0)
        answered(dict.fromkeys(batches.partitions, code))


def test_batches_wait_behind_the_first_and_are_released_in_order() -> None:
    """One request for all of them: responses to several could overtake each other (IDP-6)."""
    lab = Lab()
    for sequence in range(3):
        lab.send(sequence)
    assert len(lab.asked) == 1
    assert lab.outcomes == []
    assert lab.pending.has_waiting(lab.hosted(), ADD)
    lab.answer(ErrorCode.NONE)
    assert lab.outcomes == [(0, "verified"), (1, "verified"), (2, "verified")]
    assert not lab.pending.has_waiting(lab.hosted(), ADD)
    assert len(lab.pending) == 0


def test_error_applies_to_all_waiting_batches() -> None:
    lab = Lab()
    lab.send(0)
    lab.send(1)
    lab.answer(ErrorCode.PRODUCER_FENCED)
    assert lab.outcomes == [(0, "PRODUCER_FENCED"), (1, "PRODUCER_FENCED")]
    lab.send(2)
    assert len(lab.asked) == 1


def test_retry_creates_a_new_guard() -> None:
    """TX-14: the marker that the retry waits for removes the guard of the first request."""
    lab = Lab()
    lab.send(0)
    lab.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    lab.write_marker()
    assert lab.asked == []
    lab.lab.pass_time(BACKOFF_MS)
    lab.answer(ErrorCode.NONE)
    assert lab.outcomes == [(0, "verified")]


def test_response_is_void_if_a_marker_was_written_meanwhile() -> None:
    """The coordinator is asked again, at once."""
    for transaction in (ADD, VERIFY):
        lab = Lab()
        lab.send(0, transaction)
        lab.write_marker()
        lab.answer(ErrorCode.NONE)
        assert lab.outcomes == []
        lab.answer(ErrorCode.NONE)
        assert lab.outcomes == [(0, "verified")]


def test_late_batch_of_an_ended_transaction_is_rejected() -> None:
    """KIP-890: the marker ended the very transaction that the first response was about."""
    lab = Lab()
    lab.send(0)
    lab.write_marker()
    lab.answer(ErrorCode.NONE)
    lab.answer(ErrorCode.PRODUCER_FENCED)
    assert lab.outcomes == [(0, "PRODUCER_FENCED")]


def test_retries_end_with_a_retriable_error() -> None:
    lab = Lab()
    lab.send(0)
    for _ in range(TIMEOUT_MS // BACKOFF_MS):
        lab.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert lab.outcomes == []
        lab.lab.pass_time(BACKOFF_MS)
    lab.send(1)
    lab.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert lab.outcomes == [(0, "CONCURRENT_TRANSACTIONS"), (1, "CONCURRENT_TRANSACTIONS")]
    assert len(lab.pending) == 0


def test_markers_do_not_keep_a_batch_waiting_for_ever() -> None:
    lab = Lab()
    lab.send(0)
    lab.lab.pass_time(TIMEOUT_MS)
    lab.write_marker()
    lab.answer(ErrorCode.NONE)
    assert lab.outcomes == [(0, "CONCURRENT_TRANSACTIONS")]


def test_verify_only_client_does_not_wait_for_markers() -> None:
    """It adds partitions itself, and waits then."""
    lab = Lab()
    lab.send(0, VERIFY)
    lab.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert lab.outcomes == [(0, "CONCURRENT_TRANSACTIONS")]


def test_other_epochs_and_transactional_ids_are_verified_separately() -> None:
    """Otherwise a zombie, or a client with a made-up id, could delay or fail a producer."""
    lab = Lab()
    zombie = replace(ADD, producer=replace(PRODUCER, epoch=PRODUCER.epoch - 1))
    other = replace(ADD, transactional_id="y")
    for sequence, transaction in enumerate((zombie, other, ADD)):
        lab.send(sequence, transaction)
    assert len(lab.asked) == 3
    lab.answer(ErrorCode.PRODUCER_FENCED)
    lab.answer(ErrorCode.INVALID_TXN_STATE)
    lab.answer(ErrorCode.NONE)
    assert lab.outcomes == [(0, "PRODUCER_FENCED"), (1, "INVALID_TXN_STATE"), (2, "verified")]


def test_only_partitions_that_need_it_are_retried() -> None:
    lab = Lab()
    batches = [
        (lab.hosted(number), Batch(number, lab.outcomes, lab.hosted(number))) for number in range(2)
    ]
    lab.pending.verify(ADD, batches)
    lab.write_marker()
    lab.answer(ErrorCode.NONE)
    assert lab.outcomes == [(1, "verified")]
    ((question, _),) = lab.asked
    assert question.partitions == (lab.hosted(0).name,)
    lab.answer(ErrorCode.NONE)
    assert lab.outcomes == [(1, "verified"), (0, "verified")]


def test_batch_that_arrives_during_the_release_keeps_its_order() -> None:
    lab = Lab()

    class Chained(Batch):
        def verified(self, ticket: VerificationGuard) -> None:
            super().verified(ticket)
            lab.send(2)

    lab.pending.verify(ADD, [(lab.hosted(), Chained(0, lab.outcomes, lab.hosted()))])
    lab.send(1)
    lab.answer(ErrorCode.NONE)
    assert lab.outcomes == [(0, "verified"), (1, "verified"), (2, "verified")]
