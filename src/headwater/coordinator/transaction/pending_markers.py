"""Markers of prepared transactions that partitions have not confirmed (TX-6).

Built from the Prepare records by replay. A marker is pending until its leader has written it,
without a time limit. There are two exceptions: the partition was deleted; or it has seen a newer
producer epoch or coordinator, and then this coordinator is outdated and stops.

Note: while a marker is in flight it is not sent again. In transaction version 1 the next
transaction has the same epoch, and a late duplicate would end it.
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
    """Markers of one transaction: per partition the attempt in flight."""

    transaction: TransactionMetadata
    sent_in: dict[TopicPartition, int]
    failures: int = 0
    is_abandoned: bool = False

    @property
    def is_confirmed(self) -> bool:
        return not self.sent_in and not self.is_abandoned

    @property
    def waits_for_retry(self) -> bool:
        return not self.is_abandoned and _NOT_SENT in self.sent_in.values()

    def add(self, answered: MarkersAnswered) -> None:
        """Apply outcomes; those of an earlier sending are ignored."""
        for partition, outcome in answered.outcomes:
            if self.sent_in.get(partition) != answered.send_id:
                continue
            match outcome:
                case MarkerOutcome.WRITTEN | MarkerOutcome.PARTITION_DELETED:
                    del self.sent_in[partition]
                case MarkerOutcome.FAILED:
                    self.sent_in[partition] = _NOT_SENT
                case MarkerOutcome.FENCED:
                    self.is_abandoned = True

    def retry_after_ms(self) -> int:
        """Return the delay after one more failure."""
        wait_ms = min(MARKER_RETRY_MS << self.failures, MARKER_RETRY_MAX_MS)
        if wait_ms < MARKER_RETRY_MAX_MS:
            self.failures += 1
        return wait_ms


@dataclass(slots=True)
class PendingMarkers:
    """Unconfirmed markers of a shard, by transactional id."""

    coordinator_epoch: int
    _unconfirmed: dict[str, UnconfirmedMarkers] = field(default_factory=dict)
    # Sending of a decided transaction whose record is not replayed yet. If the append fails, the
    # entry stays until the next decision about the id.
    _announced: dict[str, int] = field(default_factory=dict)
    _sendings: int = 0

    def add(self, decided: TransactionMetadata) -> SendMarkers:
        """Return the sending of all markers, executed when the decision is committed."""
        send_id = self._next_sending()
        self._announced[decided.transactional_id] = send_id
        return self._sending(decided, send_id, decided.partitions)

    def replay(self, transaction: TransactionMetadata) -> None:
        """Apply a transaction record: track its markers if prepared, else drop them."""
        transactional_id = transaction.transactional_id
        if transaction.state.is_prepared:
            send_id = self._announced.pop(transactional_id, _NOT_SENT)
            sent_in = dict.fromkeys(transaction.partitions, send_id)
            self._unconfirmed[transactional_id] = UnconfirmedMarkers(transaction, sent_in)
        else:
            self.remove(transactional_id)

    def remove(self, transactional_id: str) -> None:
        self._unconfirmed.pop(transactional_id, None)

    def of(self, transactional_id: str) -> UnconfirmedMarkers | None:
        return self._unconfirmed.get(transactional_id)

    def all(self) -> list[UnconfirmedMarkers]:
        return list(self._unconfirmed.values())

    def resend(self, unconfirmed: UnconfirmedMarkers) -> SendMarkers:
        """Send the markers that are not in flight."""
        send_id = self._next_sending()
        unsent = tuple(tp for tp, sent_in in unconfirmed.sent_in.items() if sent_in == _NOT_SENT)
        unconfirmed.sent_in.update(dict.fromkeys(unsent, send_id))
        return self._sending(unconfirmed.transaction, send_id, unsent)

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
