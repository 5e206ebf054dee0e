"""Which markers are still owed to partitions, for all decided transactions of one shard (TX-6).

All of this follows from the Prepare records, so it is built anew by replaying them. A marker is
owed until its leader has written it, for ever if need be. There are two other ways out: the
partition is gone; or it knows a newer producer epoch or coordinator, and then this coordinator is
the one that is out of date, and stops.

What a reader would get wrong: while a marker is on its way it is not sent again. In transactions
version 1 the next transaction has the same epoch, and a second copy that comes late would end it.
"""

from dataclasses import dataclass, field

from headwater.common.ids import TopicPartition
from headwater.coordinator.runtime.coordinator_effects import (
    MarkerOutcome,
    MarkersAnswered,
    SendMarkers,
)
from headwater.coordinator.transaction.transaction_metadata import TransactionMetadata
from headwater.coordinator.transaction.transaction_settings import (
    MARKER_RETRY_MAX_MS,
    MARKER_RETRY_MS,
)
from headwater.coordinator.transaction.transaction_states import TransactionState

_NOT_SENT = -1


@dataclass(slots=True)
class UnconfirmedMarkers:
    """The markers of one transaction: per partition, in which sending they are on their way."""

    transaction: TransactionMetadata
    sent_in: dict[TopicPartition, int]
    failures: int = 0
    is_given_up: bool = False

    @property
    def is_paid(self) -> bool:
        return not self.sent_in and not self.is_given_up

    @property
    def waits_for_retry(self) -> bool:
        return not self.is_given_up and _NOT_SENT in self.sent_in.values()

    def note(self, answered: MarkersAnswered) -> None:
        """Answers of an earlier sending say nothing about this one."""
        for partition, outcome in answered.outcomes:
            if self.sent_in.get(partition) != answered.send_id:
                continue
            match outcome:
                case MarkerOutcome.WRITTEN | MarkerOutcome.PARTITION_GONE:
                    del self.sent_in[partition]
                case MarkerOutcome.FAILED:
                    self.sent_in[partition] = _NOT_SENT
                case MarkerOutcome.FENCED:
                    self.is_given_up = True

    def retry_after_ms(self) -> int:
        """How long to wait after one more failure."""
        wait_ms = min(MARKER_RETRY_MS << self.failures, MARKER_RETRY_MAX_MS)
        if wait_ms < MARKER_RETRY_MAX_MS:
            self.failures += 1
        return wait_ms


@dataclass(slots=True)
class PendingMarkers:
    """All debts of a shard, by transactional id."""

    coordinator_epoch: int
    _debts: dict[str, UnconfirmedMarkers] = field(default_factory=dict)
    # In which sending the markers of a transaction leave that is decided but not yet written
    # down. If it never is, the entry stays until the next decision about the same id.
    _announced: dict[str, int] = field(default_factory=dict)
    _sendings: int = 0

    def announce(self, decided: TransactionMetadata) -> SendMarkers:
        """Send all markers of a transaction as soon as its decision is written down."""
        send_id = self._next_sending()
        self._announced[decided.transactional_id] = send_id
        return self._sending(decided, send_id, decided.partitions)

    def replay(self, transaction: TransactionMetadata) -> None:
        """A transaction has been written down: either it is decided, or nothing is owed for it."""
        transactional_id = transaction.transactional_id
        if transaction.state.is_prepared:
            send_id = self._announced.pop(transactional_id, _NOT_SENT)
            sent_in = dict.fromkeys(transaction.partitions, send_id)
            self._debts[transactional_id] = UnconfirmedMarkers(transaction, sent_in)
        else:
            self.forget(transactional_id)

    def forget(self, transactional_id: str) -> None:
        self._debts.pop(transactional_id, None)

    def of(self, transactional_id: str) -> UnconfirmedMarkers | None:
        return self._debts.get(transactional_id)

    def all(self) -> list[UnconfirmedMarkers]:
        return list(self._debts.values())

    def send_again(self, debt: UnconfirmedMarkers) -> SendMarkers:
        """Send what is not on its way."""
        send_id = self._next_sending()
        unsent = tuple(tp for tp, sent_in in debt.sent_in.items() if sent_in == _NOT_SENT)
        debt.sent_in.update(dict.fromkeys(unsent, send_id))
        return self._sending(debt.transaction, send_id, unsent)

    def _next_sending(self) -> int:
        self._sendings += 1
        return self._sendings

    def _sending(
        self, decided: TransactionMetadata, send_id: int, partitions: tuple[TopicPartition, ...]
    ) -> SendMarkers:
        return SendMarkers(
            transactional_id=decided.transactional_id,
            send_id=send_id,
            producer_id=decided.producer_id,
            producer_epoch=decided.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            client_version=decided.client_version,
            is_commit=decided.state is TransactionState.PREPARE_COMMIT,
            partitions=partitions,
        )
