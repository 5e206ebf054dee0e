"""A partition of the transactions simulator: a list, and the leader's real rules.

Producer state and transaction verification are the shipped ones. What the log writes to disk is
tested elsewhere, so here it is entries in memory, and the high watermark is the end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.records.batch_header import TRANSACTIONAL_FLAG, BatchHeader
from headwater.replication.transaction_verification import (
    TransactionVerification,
    VerificationGuard,
    VerificationRequest,
    late_marker_error,
    produce_code,
)
from headwater.storage.producer_state.producer_state_manager import (
    AppendOrigin,
    CompletedTransaction,
    ProducerStateManager,
)


class Value(NamedTuple):
    """One record: its transaction attempt, and its number in it."""

    attempt: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One record of a producer, on its way to a partition."""

    transactional_id: str
    producer_id: int
    epoch: int
    sequence: int
    value: Value
    question: VerificationRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A transaction marker. The version comes from the coordinator and is not stored."""

    client_version: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    is_commit: bool


Ask = Callable[[Batch, TopicPartition, Callable[[ErrorCode], None]], None]
"""How a leader verifies a first batch with the coordinator."""


@dataclass(slots=True)
class SimPartition:
    """One partition and its leader."""

    name: TopicPartition
    leader: NodeId
    ask: Ask
    entries: list[Batch | Marker] = field(default_factory=list)
    completed: list[CompletedTransaction] = field(default_factory=list)
    is_led: bool = True
    is_deleted: bool = False
    _states: ProducerStateManager = field(default_factory=ProducerStateManager)
    _guard: TransactionVerification = field(default_factory=TransactionVerification)

    def produce(self, batch: Batch, answer: Callable[[ErrorCode], None], now_ms: int) -> None:
        if not self.is_led or self.is_deleted:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self._states.find_duplicate(_header(batch)) is not None:
            answer(ErrorCode.NONE)
        elif self._states.has_open_transaction(batch.producer_id, batch.epoch):
            answer(self._append(batch, None))
        else:
            ticket = self._guard.start(
                batch.producer_id,
                epoch=batch.epoch,
                sequence=batch.sequence,
                request=batch.question,
                now_ms=now_ms,
            )

            def verified(code: ErrorCode) -> None:
                if code:
                    answer(produce_code(code, batch.question))
                else:
                    answer(self._append(batch, ticket))

            self.ask(batch, self.name, verified)

    def write_marker(self, marker: Marker) -> ErrorCode:
        if not self.is_led or self.is_deleted:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        offset = len(self.entries)
        is_open = self._states.has_open_transaction(marker.producer_id, marker.epoch)
        late = late_marker_error(marker.client_version, has_open_transaction=is_open)
        if late is not None:
            return late
        try:
            self._states.check_marker(
                producer_id=marker.producer_id,
                epoch=marker.epoch,
                coordinator_epoch=marker.coordinator_epoch,
            )
        except HeadwaterError as error:
            return error.code
        done = self._states.record_marker(
            producer_id=marker.producer_id,
            epoch=marker.epoch,
            coordinator_epoch=marker.coordinator_epoch,
            is_abort=not marker.is_commit,
            offset=offset,
            timestamp=0,
        )
        self._guard.forget(marker.producer_id)
        self.entries.append(marker)
        if done is not None:
            self.completed.append(done)
        self._states.high_watermark_moved(len(self.entries))
        return ErrorCode.NONE

    @property
    def last_stable_offset(self) -> int:
        return self._states.last_stable_offset(high_watermark=len(self.entries), log_start_offset=0)

    def read_committed(self) -> list[Value]:
        """What a read_committed consumer has seen so far (TX-16)."""
        hidden = {
            offset
            for done in self.completed
            if done.is_aborted
            for offset in range(done.first_offset, done.last_offset)
            if self.entries[offset].producer_id == done.producer_id
        }
        return [
            entry.value
            for offset, entry in enumerate(self.entries[: self.last_stable_offset])
            if isinstance(entry, Batch) and offset not in hidden
        ]

    def _append(self, batch: Batch, ticket: VerificationGuard | None) -> ErrorCode:
        header = _header(batch)
        if self._states.find_duplicate(header) is not None:
            return ErrorCode.NONE
        try:
            if not self._states.has_open_transaction(batch.producer_id, batch.epoch):
                self._guard.check(
                    batch.producer_id,
                    ticket,
                    sequence=batch.sequence,
                    knows_producer=self._states.has_producer(batch.producer_id),
                )
            self._states.check(header, AppendOrigin.CLIENT)
        except HeadwaterError as error:
            return error.code
        self._states.record(header, first_offset=len(self.entries), timestamp=0)
        self._guard.forget(batch.producer_id)
        self.entries.append(batch)
        return ErrorCode.NONE


def _header(batch: Batch) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        length=100,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL_FLAG,
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=batch.producer_id,
        producer_epoch=batch.epoch,
        base_sequence=batch.sequence,
        record_count=1,
    )
