"""Append transaction markers to partitions that this broker leads (TX-6, TX-7).

A marker of `__consumer_offsets` is written and applied by the shard of its groups; any other marker
is appended directly.

Note: waiting read_committed fetches are woken without a byte count. A marker is small, but the
records it makes readable may be many.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.broker.coordinators.group_coordinator import GroupCoordinator
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, StorageError
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.coordinator.runtime.record_batches import marker_of
from headwater.metadata.internal_topics import CONSUMER_OFFSETS
from headwater.replication.partition import Partition
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_manager import ReplicaManager
from headwater.replication.transaction_verification import late_marker_error
from headwater.replication.transactional_append import written
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.producer_state.producer_state_manager import AppendOrigin

Written = Callable[[ErrorCode], None]

_NOT_READY: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The end of a transaction. Coordinators send `client_version`, tools do not."""

    producer: TransactionalProducer
    coordinator_epoch: int
    client_version: int
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarkerWriter:
    """Appends markers. Only for the loop's thread."""

    partitions: ReplicaManager
    groups: GroupCoordinator
    clock: Clock
    timer: Timer
    timeout_ms: int

    def write(self, marker: Marker, partition: TopicPartition, answer: Written) -> None:
        """Append a marker; `answer` gets NONE once it is committed, or an error."""
        hosted = self.partitions.find(*partition)
        if hosted is None:
            answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif partition.topic == CONSUMER_OFFSETS:
            self._end_offsets(marker, partition.partition, answer)
        else:
            self._append(marker, hosted, answer)

    def _end_offsets(self, marker: Marker, number: int, answer: Written) -> None:
        shard = self.groups.runtime.find(number)
        if shard is None:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return

        def ended(outcome: Outcome) -> None:
            assert isinstance(outcome, ErrorCode), "a marker is answered with an error code"
            answer(_known_to_coordinators(outcome))

        shard.end_transaction(
            marker.producer,
            coordinator_epoch=marker.coordinator_epoch,
            client_version=marker.client_version,
            is_commit=marker.is_commit,
            answer=ended,
        )

    def _append(self, marker: Marker, hosted: Partition, answer: Written) -> None:
        try:
            code = hosted.leadership_error() or self._append_now(marker, hosted)
        except HeadwaterError as error:
            code = error.code
        if code is None and hosted.log is not None:
            self._answer_when_safe(hosted, hosted.log, answer)
        else:
            answer(code or ErrorCode.NONE)

    def _answer_when_safe(self, hosted: Partition, log: UnifiedLog, answer: Written) -> None:
        """Answer once the marker is committed: losing it would leave the transaction open."""
        is_everywhere = log.high_watermark >= log.end_offset
        if is_everywhere and not log.needs_flush:
            answer(ErrorCode.NONE)
            return
        awaited = _AwaitedMarker(self.timer, hosted, answer)
        self.timer.add(self.clock.steady_ms() + self.timeout_ms, awaited)
        if not is_everywhere and hosted.add_delayed_produce(awaited, log.end_offset):
            awaited.missing += 1
        if log.needs_flush:
            awaited.missing += 1
            log.flush(awaited.flushed)
        awaited.complete_one()

    def _append_now(self, marker: Marker, hosted: Partition) -> ErrorCode | None:
        log, producer = hosted.open_log(), marker.producer
        if hosted.is_under_min_isr(log.settings.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        is_open = log.producers.has_open_transaction(producer.producer_id, producer.epoch)
        late = late_marker_error(marker.client_version, has_open_transaction=is_open)
        if late is not None:
            return late
        now_ms = self.clock.now_ms()
        batch = marker_of(
            producer, marker.coordinator_epoch, is_commit=marker.is_commit, now_ms=now_ms
        )
        log.append_as_leader(
            batch,
            leader_epoch=hosted.leader_epoch,
            now_ms=now_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        written(hosted, producer.producer_id)
        hosted.on_append(log, 0)
        return None


def _known_to_coordinators(code: ErrorCode) -> ErrorCode:
    """Map coordinator errors to the leader errors that Kafka 4.1 expects here."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code


class _AwaitedMarker:
    """A marker that waits for the ISR, a flush, or both.

    A failed disk or lost replicas may never answer, so there is a timeout.
    """

    __slots__ = ("_answer", "_hosted", "_timer", "is_done", "missing")

    def __init__(self, timer: Timer, hosted: Partition, answer: Written) -> None:
        self._timer = timer
        self._hosted = hosted
        self._answer = answer
        # One is for the caller, until it has added everything to wait for.
        self.missing = 1
        self.is_done = False

    @property
    def is_disconnected(self) -> bool:
        """Never: the coordinator keeps waiting."""
        return False

    def flushed(self, failure: StorageError | None) -> None:
        if failure is None:
            self.complete_one()
        else:
            self._complete(failure.code)

    def committed(self, code: ErrorCode) -> None:
        """`headwater.replication.purgatory.delayed_produce.DelayedProduce`."""
        if code is ErrorCode.NONE:
            self.complete_one()
        else:
            self._complete(code)

    def complete_one(self) -> None:
        self.missing -= 1
        if not self.missing:
            self._complete(ErrorCode.NONE)

    def expire(self) -> None:
        self._complete(ErrorCode.REQUEST_TIMED_OUT)

    def _complete(self, code: ErrorCode) -> None:
        if not self.is_done:
            self.is_done = True
            self._hosted.remove_delayed_produce(self)
            self._timer.completed()
            self._answer(code)
