"""The fetch session of a follower: reads only partitions that have news for it.

A broker follows thousands of partitions of another one, and most are idle. A fetch therefore reads
only the partitions that are *due*: the request names them, or they changed since they were last
read.

Invariant: a partition stays due as long as there is anything that the follower has not been sent,
even if it was read and the response has not been sent yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicId
from headwater.protocol.messages.fetch import FetchPartition
from headwater.replication.fetch.fetch_session import CachedPartition, FetchSession
from headwater.replication.fetch.log_reads import (
    FetchReads,
    PartitionRead,
    add_divergence,
    divergence,
    find_partition,
    read_partition,
    without_records,
)
from headwater.replication.follower_replica import NO_BROKER_EPOCH
from headwater.replication.leader_state import FollowerFetch
from headwater.replication.partition import Partition
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.log.unified_log import ReadBound


class FollowedPartition(CachedPartition):
    """One partition of the session; implements `partition.LogTailListener`."""

    __slots__ = ("is_requested", "log_start_offset", "session")

    def __init__(
        self,
        session: FollowerSession,
        topic: str,
        topic_id: TopicId | None,
        requested: FetchPartition,
    ) -> None:
        self.session = session
        # The request named it, and its offset has not been recorded yet.
        self.is_requested = True
        super().__init__(topic, topic_id, requested)

    def update(self, requested: FetchPartition) -> None:
        super().update(requested)
        self.log_start_offset = requested.log_start_offset
        self.is_requested = True

    def appended(self, size_bytes: int) -> None:
        self.session.due[self] = None
        self.session.more_to_read(size_bytes)

    def moved(self) -> None:
        self.session.due[self] = None
        if self.session.wakes_on_high_watermark:
            self.session.more_to_read(0)

    def changed(self) -> None:
        self.session.due[self] = None
        self.session.more_to_read(0)

    def attach(self, hosted: Partition) -> None:
        hosted.tail_listeners[self] = None

    def detach(self) -> None:
        hosted = self.hosted
        if hosted is not None:
            hosted.tail_listeners.pop(self, None)
            if hosted.leader_state is not None:
                hosted.leader_state.stopped(self.session.replica_id, self.session)


def _ignore(_: int) -> None:
    """Callback while no fetch of the session waits."""


@dataclass(slots=True, kw_only=True, eq=False)
class FollowerSession(FetchSession):
    """Session of one follower. `fetched_ms` is the steady time of its last fetch."""

    replica_id: NodeId
    broker_epoch: int = NO_BROKER_EPOCH
    fetched_ms: int = 0
    # Consumers that read from this follower must not wait for its next records to see a new high
    # watermark. Kafka does the same (2.5, KAFKA-9731).
    wakes_on_high_watermark: bool = False
    due: dict[FollowedPartition, None] = field(default_factory=dict)
    # Called with the number of bytes that became available; 0 if something else changed.
    more_to_read: Callable[[int], None] = _ignore
    # Completes the waiting fetch, if there is one.
    force_complete: Callable[[], None] | None = None
    is_follower: ClassVar = True

    def new_partition(
        self, topic: str, topic_id: TopicId | None, requested: FetchPartition
    ) -> FollowedPartition:
        return FollowedPartition(self, topic, topic_id, requested)

    def on_requested(self, wanted: CachedPartition) -> None:
        assert isinstance(wanted, FollowedPartition)
        self.due[wanted] = None

    def on_forgotten(self, wanted: CachedPartition) -> None:
        assert isinstance(wanted, FollowedPartition)
        self.due.pop(wanted, None)
        wanted.detach()

    def update_broker_epoch(self, broker_epoch: int) -> None:
        """Take the broker epoch of a request; a new one records all offsets again (ISR-3)."""
        if broker_epoch == self.broker_epoch:
            return
        self.broker_epoch = broker_epoch
        for wanted in self.partitions.values():
            assert isinstance(wanted, FollowedPartition)
            wanted.is_requested = True
            self.due[wanted] = None

    def partitions_to_read(self) -> Sequence[CachedPartition]:
        return list(self.due)

    def close(self) -> None:
        for wanted in self.partitions.values():
            assert isinstance(wanted, FollowedPartition)
            wanted.detach()
        self.due.clear()
        self.more_to_read = _ignore

    def start_waiting(
        self, more_to_read: Callable[[int], None], force_complete: Callable[[], None]
    ) -> None:
        """A fetch of this session waits from now on."""
        self.more_to_read, self.force_complete = more_to_read, force_complete

    def stop_waiting(self) -> None:
        self.more_to_read, self.force_complete = _ignore, None


def read_due(session: FollowerSession, partitions: ReplicaManager, *, max_bytes: int) -> FetchReads:
    """Read the due partitions, after recording the follower's offsets (HW-4)."""
    left_bytes, total_bytes, is_final = max_bytes, 0, False
    reads: list[PartitionRead] = []
    for each in list(session.due):
        read = _read(each, partitions, min(each.max_bytes, left_bytes), is_first=not total_bytes)
        reads.append(read)
        if read.range is not None:
            total_bytes += read.range.length
            left_bytes = max(0, left_bytes - read.range.length)
            # Move it to the end: a partition whose batch exceeds the remaining bytes must get to be
            # first at some time (FT-2, FT-6).
            del session.due[each]
            session.due[each] = None
        elif read.is_final or (session.wakes_on_high_watermark and _has_new_watermark(read)):
            is_final = True
        elif _is_up_to_date(each):
            del session.due[each]
    return FetchReads(reads, total_bytes, is_final)


def _has_new_watermark(read: PartitionRead) -> bool:
    return not read.error and read.high_watermark != read.wanted.sent_high_watermark


def _is_up_to_date(wanted: FollowedPartition) -> bool:
    """Return whether the follower has been sent everything there is."""
    log = None if wanted.hosted is None else wanted.hosted.log
    return (
        log is not None
        and wanted.offset == log.end_offset
        and wanted.sent_high_watermark == log.high_watermark
        and wanted.sent_log_start_offset == log.log_start_offset
    )


def _read(
    wanted: FollowedPartition, partitions: ReplicaManager, max_bytes: int, *, is_first: bool
) -> PartitionRead:
    former = wanted.hosted
    hosted = find_partition(wanted, partitions)
    if isinstance(hosted, ErrorCode):
        return PartitionRead(wanted, hosted)
    if hosted is not former:
        wanted.attach(hosted)
    refusal = hosted.leadership_error(wanted.current_leader_epoch)
    if refusal is not None:
        return PartitionRead(wanted, refusal)
    try:
        log = hosted.open_log()
        if not hosted.has_follower(wanted.session.replica_id):
            return PartitionRead(wanted, _not_a_replica(wanted))
        diverging = divergence(log, wanted)
        if diverging is not None:
            return add_divergence(wanted, log, diverging)
        # Validate the offset before recording it.
        log.check_offset(wanted.offset)
        if wanted.is_requested:
            wanted.is_requested = False
            if not hosted.update_follower_fetch_state(_fetch_of(wanted)):
                return PartitionRead(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not hosted.may_send(wanted.session.replica_id):
            return without_records(wanted, log)
        read = read_partition(
            wanted, log, max_bytes=max_bytes, bound=ReadBound.LOG_END, at_least_one=is_first
        )
        if read.range is not None:
            hosted.record_sent(read.range.length)
        return read
    except HeadwaterError as error:
        return PartitionRead(wanted, error.code)


def _not_a_replica(wanted: FollowedPartition) -> ErrorCode:
    """EP-10: with an epoch, the follower may know a newer assignment than this leader."""
    if wanted.current_leader_epoch >= 0:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def _fetch_of(wanted: FollowedPartition) -> FollowerFetch:
    session = wanted.session
    return FollowerFetch(
        node_id=session.replica_id,
        broker_epoch=session.broker_epoch,
        offset=wanted.offset,
        log_start_offset=wanted.log_start_offset,
        session=session,
    )
