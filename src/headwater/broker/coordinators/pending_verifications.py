"""Batches that wait for the verification of their transaction (KIP-890, TX-13).

One verification is pending per partition, producer epoch and transactional id. Batches that arrive
meanwhile wait behind the first one, so that batches of one producer are appended in the order of
their arrival, whichever response comes first (Kafka 4.1 gets this order by muting the connection
until a request is answered).

Invariant: a batch that would start a transaction is appended only with a verification guard that
was created before the request was sent and that no marker has removed since. Every request creates
a new guard. The request is sent again

- after `add.partitions.to.txn.retry.backoff.ms`, if the response was CONCURRENT_TRANSACTIONS: with
  transactions version 2 a producer begins its next transaction while markers of the last one are
  still being written. Waiting here is cheaper than having the client send the batch again.
- at once, if the response was positive but a marker was written in the meantime. The marker may
  have ended the transaction that the response was about, so the response is void.

Both end after `add.partitions.to.txn.retry.backoff.max.ms`; then the client gets
CONCURRENT_TRANSACTIONS, which it retries. The number of waiting requests is bounded by
`queued.max.requests`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.replication.partition import Partition
from headwater.replication.purgatory.timer import Timer
from headwater.replication.transaction_verification import VerificationGuard, VerificationRequest
from headwater.replication.transactional_append import (
    begin_verification,
    is_current,
    verification_failed,
)

Codes = Mapping[TopicPartition, ErrorCode]
OnVerified = Callable[[Codes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBatches:
    """One request: the partitions in which a producer's transaction is about to start."""

    transactional_id: str
    producer: TransactionalProducer
    partitions: tuple[TopicPartition, ...]
    verification_request: VerificationRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTransaction:
    """The transaction of a batch, and the request that its client's version needs."""

    transactional_id: str
    producer: TransactionalProducer
    verification_request: VerificationRequest


class UnverifiedBatch(Protocol):
    """A batch that waits for its verification."""

    @property
    def sequence(self) -> int: ...

    def verified(self, guard: VerificationGuard) -> None:
        """Append the batch, if the guard is still valid then."""

    def failed(self, code: ErrorCode) -> None:
        """Fail the batch with the coordinator's error code."""


@dataclass(slots=True, eq=False)
class PendingVerification:
    """Batches of one producer epoch that wait for one partition, in order of arrival."""

    hosted: Partition
    waiting: deque[UnverifiedBatch] = field(default_factory=deque)
    guard: VerificationGuard | None = None


class PendingVerifications:
    """All pending verifications. Only for the loop's thread."""

    def __init__(
        self,
        send: Callable[[FirstBatches, OnVerified], None],
        *,
        clock: Clock,
        timer: Timer,
    ) -> None:
        self._ask_coordinator = send
        self._clock = clock
        self._timer = timer
        self._backoff_ms = 0
        self._timeout_ms = 0
        self._pending: dict[tuple[Partition, VerifiedTransaction], PendingVerification] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def configure(self, settings: BrokerSettings) -> None:
        """Apply dynamic configs."""
        self._backoff_ms = settings.add_partitions_to_txn_retry_backoff_ms
        self._timeout_ms = min(
            settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms
        )

    def has_waiting(self, hosted: Partition, transaction: VerifiedTransaction) -> bool:
        """Whether earlier batches of the transaction wait; later ones must then wait too."""
        return bool(self._pending) and (hosted, transaction) in self._pending

    def verify(
        self,
        transaction: VerifiedTransaction,
        batches: Iterable[tuple[Partition, UnverifiedBatch]],
    ) -> None:
        """Queue batches, and verify the partitions that have no pending verification yet."""
        begun: list[PendingVerification] = []
        for hosted, batch in batches:
            pending = self._pending.get((hosted, transaction))
            if pending is None:
                pending = self._pending[hosted, transaction] = PendingVerification(hosted)
                begun.append(pending)
            pending.waiting.append(batch)
        if begun:
            self._ask(transaction, begun, self._clock.steady_ms() + self._timeout_ms)

    def _ask(
        self,
        transaction: VerifiedTransaction,
        verifications: Sequence[PendingVerification],
        until_ms: int,
    ) -> None:
        producer, now_ms = transaction.producer, self._clock.now_ms()
        for each in verifications:
            each.guard = begin_verification(
                each.hosted,
                producer.producer_id,
                epoch=producer.epoch,
                sequence=min(batch.sequence for batch in each.waiting),
                request=transaction.verification_request,
                now_ms=now_ms,
            )
        batches = FirstBatches(
            transactional_id=transaction.transactional_id,
            producer=producer,
            partitions=tuple(each.hosted.name for each in verifications),
            verification_request=transaction.verification_request,
        )
        self._ask_coordinator(
            batches, lambda codes: self._answered(transaction, verifications, until_ms, codes)
        )

    def _answered(
        self,
        transaction: VerifiedTransaction,
        verifications: Sequence[PendingVerification],
        until_ms: int,
        codes: Codes,
    ) -> None:
        adds = not transaction.verification_request.is_verify_only
        producer_id = transaction.producer.producer_id
        early: list[PendingVerification] = []
        stale: list[PendingVerification] = []
        for each in verifications:
            code = codes[each.hosted.name]
            assert each.guard is not None
            if each.hosted.leadership_error() is not None:
                # No longer the leader: the append fails, and nothing must be added.
                self._complete(transaction, each, code)
            elif code is ErrorCode.CONCURRENT_TRANSACTIONS and adds:
                early.append(each)
            elif not code and not is_current(each.hosted, producer_id, each.guard):
                stale.append(each)
            else:
                self._complete(transaction, each, code)
        if not early and not stale:
            return
        now_ms = self._clock.steady_ms()
        if now_ms >= until_ms:
            for each in (*early, *stale):
                self._complete(transaction, each, ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        if stale:
            self._ask(transaction, stale, until_ms)
        if early:
            later = _Later(self._timer, lambda: self._ask(transaction, early, until_ms))
            self._timer.add(now_ms + self._backoff_ms, later)

    def _complete(
        self, transaction: VerifiedTransaction, pending: PendingVerification, code: ErrorCode
    ) -> None:
        """Append or fail all waiting batches, including new arrivals."""
        hosted, guard = pending.hosted, pending.guard
        assert guard is not None
        if code:
            verification_failed(hosted, transaction.producer.producer_id, code)
        try:
            while pending.waiting:
                batch = pending.waiting.popleft()
                if code:
                    batch.failed(code)
                else:
                    batch.verified(guard)
        finally:
            del self._pending[hosted, transaction]


class _Later:
    """A delayed retry (`headwater.replication.purgatory.timer.TimerTask`)."""

    __slots__ = ("_ask", "_timer", "is_done")

    def __init__(self, timer: Timer, ask: Callable[[], None]) -> None:
        self._timer = timer
        self._ask = ask
        self.is_done = False

    @property
    def is_disconnected(self) -> bool:
        """Never: batches of several connections may wait, and the backoff is short."""
        return False

    def expire(self) -> None:
        self.is_done = True
        self._timer.completed()
        self._ask()
