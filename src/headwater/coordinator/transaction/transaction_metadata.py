"""State of one transactional id, and its transitions.

Values are immutable; a transition returns the next one.

Note: `last_producer_epoch` is not in the log, which has no field for it. It lets a producer retry
an InitProducerId whose response was lost; after a restart such a retry is fenced, as in Kafka.

Note: in transaction version 2 the epoch is raised with the Prepare record, and the markers carry
the new epoch. A producer id whose epochs are exhausted is replaced with the Complete record, since
the markers must be written under the old one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NO_PRODUCER, NO_TIMESTAMP, ProducerId, TopicPartition
from headwater.coordinator.records.transaction_records import (
    TransactionLogKey,
    TransactionLogRecord,
    TransactionLogValue,
    TransactionPartitions,
)
from headwater.coordinator.transaction.transaction_states import TRANSITIONS, TransactionState

FIRST_EPOCH: Final = 0
LAST_USABLE_EPOCH: Final = 32766
"""The highest epoch that a producer gets; one more is reserved for fencing it."""

OLD_CLIENTS: Final = 0
EPOCH_BUMPS: Final = 2
"""The transaction version (KIP-890) in which every end raises the epoch."""


def is_exhausted(epoch: int) -> bool:
    return epoch >= LAST_USABLE_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int
    previous_producer_id: ProducerId = NO_PRODUCER
    next_producer_id: ProducerId = NO_PRODUCER
    client_version: int = OLD_CLIENTS
    last_producer_epoch: int = NO_EPOCH

    @property
    def is_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def deadline_ms(self) -> int:
        """When an ongoing transaction times out (TX-9)."""
        return self.start_ms + self.timeout_ms

    def record(self) -> TransactionLogRecord:
        """Return the record. Like Kafka, without a partition list in state Empty."""
        is_empty = self.state is TransactionState.EMPTY
        return TransactionLogRecord(
            TransactionLogKey(transactional_id=self.transactional_id),
            TransactionLogValue(
                producer_id=self.producer_id,
                previous_producer_id=self.previous_producer_id,
                next_producer_id=self.next_producer_id,
                producer_epoch=self.producer_epoch,
                transaction_timeout_ms=self.timeout_ms,
                transaction_status=self.state,
                transaction_partitions=None if is_empty else _by_topic(self.partitions),
                transaction_last_update_timestamp_ms=self.last_update_ms,
                transaction_start_timestamp_ms=self.start_ms,
                client_transaction_version=self.client_version,
            ),
        )

    def initialised(self, *, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Self:
        """After InitProducerId: a producer writes with this epoch."""
        return replace(
            self._at(TransactionState.EMPTY, now_ms),
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=(),
            start_ms=NO_TIMESTAMP,
        )

    def rotated(
        self, producer_id: ProducerId, *, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Self:
        """The epochs of the producer id are exhausted: use a new producer id."""
        initialised = self.initialised(
            epoch=FIRST_EPOCH, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms
        )
        return replace(initialised, producer_id=producer_id)

    def with_partitions(
        self, added: Iterable[TopicPartition], *, client_version: int, now_ms: int
    ) -> Self:
        """Add partitions. The first ones start the transaction."""
        is_new = self.state is not TransactionState.ONGOING
        return replace(
            self._at(TransactionState.ONGOING, now_ms),
            partitions=tuple(dict.fromkeys((*self.partitions, *added))),
            start_ms=now_ms if is_new else self.start_ms,
            client_version=client_version,
        )

    def ended(self, *, is_commit: bool, now_ms: int) -> Self:
        """Prepare commit or abort for a version 1 client: the epoch stays."""
        return replace(self._at(_prepared(is_commit), now_ms), client_version=OLD_CLIENTS)

    def ended_with_bump(
        self, *, is_commit: bool, now_ms: int, next_producer_id: ProducerId = NO_PRODUCER
    ) -> Self:
        """Prepare commit or abort in version 2 (TX-14), even without a transaction."""
        assert self.producer_epoch <= LAST_USABLE_EPOCH, "a producer must not use the fencing epoch"
        is_ongoing = self.state is TransactionState.ONGOING
        return replace(
            self._at(_prepared(is_commit), now_ms),
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if is_ongoing else now_ms,
            client_version=EPOCH_BUMPS,
        )

    def fenced(self, *, server_version: int, now_ms: int) -> Self:
        """Abort by the coordinator; a producer with the old epoch is fenced."""
        if server_version >= EPOCH_BUMPS:
            return self.ended_with_bump(is_commit=False, now_ms=now_ms)
        return replace(
            self._at(TransactionState.PREPARE_ABORT, now_ms),
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=NO_EPOCH,
            client_version=OLD_CLIENTS,
        )

    def completed(self, now_ms: int) -> Self:
        """All markers are written. A new producer id takes effect."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        done = replace(self._at(state, now_ms), partitions=())
        if self.next_producer_id == NO_PRODUCER:
            return done
        return replace(
            done,
            producer_id=self.next_producer_id,
            producer_epoch=FIRST_EPOCH,
            next_producer_id=NO_PRODUCER,
        )

    def _at(self, state: TransactionState, now_ms: int) -> Self:
        assert state in TRANSITIONS[self.state], (
            f"invalid transaction state transition: {self.state.label} to {state.label}"
        )
        # As in Kafka 4.1, the previous id is that of the step before, so it differs from the
        # current one only right after a rotation.
        return replace(
            self, state=state, previous_producer_id=self.producer_id, last_update_ms=now_ms
        )


def metadata_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """Read a record; a missing partition list is empty."""
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=tuple(
            TopicPartition(topic.topic, number)
            for topic in value.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def tombstone_of(transactional_id: str) -> TransactionLogRecord:
    """Return the tombstone of an expired id (TX-10)."""
    return TransactionLogRecord(TransactionLogKey(transactional_id=transactional_id), None)


def _prepared(is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[TransactionPartitions, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return tuple(
        TransactionPartitions(topic=topic, partition_ids=tuple(numbers))
        for topic, numbers in by_topic.items()
    )


@dataclass(frozen=True, slots=True)
class NeedsProducerId:
    """No decision: try again with a new producer id."""


def known_to_client(code: ErrorCode, version: int, *, fenced_since: int) -> ErrorCode:
    """Map PRODUCER_FENCED to an error that older clients know."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
