"""Transaction markers into the partitions that this broker leads (TX-6, TX-7).

A marker of `__consumer_offsets` is written by the shard of its groups, which obeys it too; any
other one goes straight into its log. What a reader would get wrong: readers of committed records
are told that something has changed, and not how many bytes came. A marker is small, but what it
sets free may be large.
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
from headwater.replication.transaction_verification import refuse_late
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
    """The end of a transaction. `client_version` is told by coordinators, and not by tools."""

    producer: TransactionalProducer
    coordinator_epoch: int
    client_version: int
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarkerWriter:
    """See the module. For the loop's thread only."""

    partitions: ReplicaManager
    groups: GroupCoordinator
    clock: Clock
    timer: Timer
    timeout_ms: int

    def write(self, marker: Marker, partition: TopicPartition, answer: Written) -> None:
        """Write a marker; `answer` hears NONE once it is committed, or why it was not written."""
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
            assert isinstance(outcome, ErrorCode), "a marker has no other answer"
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
            code = hosted.refuse() or self._append_now(marker, hosted)
        except HeadwaterError as error:
            code = error.code
        if code is None and hosted.log is not None:
            self._answer_when_safe(hosted, hosted.log, answer)
        else:
            answer(code or ErrorCode.NONE)

    def _answer_when_safe(self, hosted: Partition, log: UnifiedLog, answer: Written) -> None:
        """A marker that could still be lost would leave half a transaction behind."""
        is_everywhere = log.high_watermark >= log.end_offset
        if is_everywhere and not log.needs_flush:
            answer(ErrorCode.NONE)
            return
        awaited = _AwaitedMarker(self.timer, hosted, answer)
        self.timer.add(self.clock.steady_ms() + self.timeout_ms, awaited)
        if not is_everywhere and hosted.await_commit(awaited, log.end_offset):
            awaited.missing += 1
        if log.needs_flush:
            awaited.missing += 1
            log.flush(awaited.flushed)
        awaited.one_less()

    def _append_now(self, marker: Marker, hosted: Partition) -> ErrorCode | None:
        log, producer = hosted.opened(), marker.producer
        if hosted.lacks_replicas(log.settings.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        is_open = log.producers.has_open_transaction(producer.producer_id, producer.epoch)
        late = refuse_late(marker.client_version, has_open_transaction=is_open)
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
        hosted.advanced(log, 0)
        return None


def _known_to_coordinators(code: ErrorCode) -> ErrorCode:
    """Kafka does this (4.1): a transaction coordinator waits for leaders, not for coordinators."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code


class _AwaitedMarker:
    """A marker that all in-sync replicas must have, or the disk, or both.

    A disk that has failed and replicas that are gone may say nothing, so there is a limit.
    """

    __slots__ = ("_answer", "_hosted", "_timer", "is_done", "missing")

    def __init__(self, timer: Timer, hosted: Partition, answer: Written) -> None:
        self._timer = timer
        self._hosted = hosted
        self._answer = answer
        # One for whoever still adds what is waited for.
        self.missing = 1
        self.is_done = False

    @property
    def is_gone(self) -> bool:
        """The coordinator waits, and hangs up on nobody."""
        return False

    def flushed(self, failure: StorageError | None) -> None:
        if failure is None:
            self.one_less()
        else:
            self._end(failure.code)

    def committed(self, code: ErrorCode) -> None:
        """`headwater.replication.purgatory.delayed_produce.DelayedProduce`."""
        if code is ErrorCode.NONE:
            self.one_less()
        else:
            self._end(code)

    def one_less(self) -> None:
        self.missing -= 1
        if not self.missing:
            self._end(ErrorCode.NONE)

    def expire(self) -> None:
        self._end(ErrorCode.REQUEST_TIMED_OUT)

    def _end(self, code: ErrorCode) -> None:
        if not self.is_done:
            self.is_done = True
            self._hosted.leave_commit(self)
            self._timer.ended()
            self._answer(code)
