"""The fetch session of a follower: what it follows of this broker, and what is to be looked at.

A broker follows a thousand partitions of another one, and most are idle. So a fetch looks only at
those that are *due*: the request names them, or something has happened to them since they were
last looked at. What a reader would get wrong: a partition is due for as long as there is anything
that its follower has not been told, also when it was looked at and the answer has not left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicId
from headwater.protocol.messages.fetch import FetchPartition
from headwater.replication.fetch.fetch_session import FetchSession, WantedPartition
from headwater.replication.fetch.log_reads import (
    FetchReads,
    PartitionRead,
    add_divergence,
    divergence,
    find_wanted,
    read_partition,
    without_records,
)
from headwater.replication.follower_replica import NO_BROKER_EPOCH
from headwater.replication.leader_state import FollowerFetch
from headwater.replication.partition import Partition
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.log.unified_log import ReadBound


class FollowedPartition(WantedPartition):
    """One partition of the session: `headwater.replication.partition.Tail`."""

    __slots__ = ("is_named", "log_start_offset", "session")

    def __init__(
        self, session: FollowerSession, topic: str, topic_id: TopicId | None, asked: FetchPartition
    ) -> None:
        self.session = session
        # The request says something of it that has not been noted yet.
        self.is_named = True
        super().__init__(topic, topic_id, asked)

    def update(self, asked: FetchPartition) -> None:
        super().update(asked)
        self.log_start_offset = asked.log_start_offset
        self.is_named = True

    def appended(self, size_bytes: int) -> None:
        self.session.due[self] = None
        self.session.more_to_read(size_bytes)

    def moved(self) -> None:
        self.session.due[self] = None
        if self.session.hears_watermarks:
            self.session.more_to_read(0)

    def changed(self) -> None:
        self.session.due[self] = None
        self.session.more_to_read(0)

    def attach(self, hosted: Partition) -> None:
        hosted.tails[self] = None

    def detach(self) -> None:
        hosted = self.hosted
        if hosted is not None:
            hosted.tails.pop(self, None)
            if hosted.leading is not None:
                hosted.leading.stopped(self.session.replica_id, self.session)


def _nobody(_: int) -> None:
    """No fetch of the session waits."""


@dataclass(slots=True, kw_only=True, eq=False)
class FollowerSession(FetchSession):
    """See the module. `fetched_ms` is the pulse of the follower, on the steady clock."""

    replica_id: NodeId
    broker_epoch: int = NO_BROKER_EPOCH
    fetched_ms: int = 0
    # Consumers read from followers, so these shall not wait for their next records to hear how far
    # they may be read. Kafka does this (2.5, KAFKA-9731).
    hears_watermarks: bool = False
    due: dict[FollowedPartition, None] = field(default_factory=dict)
    # Told how many bytes more can be fetched; 0 means that something else has changed.
    more_to_read: Callable[[int], None] = _nobody
    # Ends the fetch that waits, if one does.
    hurry: Callable[[], None] | None = None
    is_follower: ClassVar = True

    def want(
        self, topic: str, topic_id: TopicId | None, asked: FetchPartition
    ) -> FollowedPartition:
        return FollowedPartition(self, topic, topic_id, asked)

    def named(self, wanted: WantedPartition) -> None:
        assert isinstance(wanted, FollowedPartition)
        self.due[wanted] = None

    def forgot(self, wanted: WantedPartition) -> None:
        assert isinstance(wanted, FollowedPartition)
        self.due.pop(wanted, None)
        wanted.detach()

    def speaks_as(self, broker_epoch: int) -> None:
        """The follower's registration. With another one, all that it has counts anew (ISR-3)."""
        if broker_epoch == self.broker_epoch:
            return
        self.broker_epoch = broker_epoch
        for wanted in self.partitions.values():
            assert isinstance(wanted, FollowedPartition)
            wanted.is_named = True
            self.due[wanted] = None

    def to_read(self) -> Sequence[WantedPartition]:
        return list(self.due)

    def close(self) -> None:
        for wanted in self.partitions.values():
            assert isinstance(wanted, FollowedPartition)
            wanted.detach()
        self.due.clear()
        self.more_to_read = _nobody

    def awaits(self, more_to_read: Callable[[int], None], hurry: Callable[[], None]) -> None:
        """A fetch waits from now on."""
        self.more_to_read, self.hurry = more_to_read, hurry

    def awaits_no_more(self) -> None:
        self.more_to_read, self.hurry = _nobody, None


def read_due(session: FollowerSession, partitions: ReplicaManager, *, max_bytes: int) -> FetchReads:
    """Look into what is due. What follows from the follower's offsets is done first (HW-4)."""
    left_bytes, total_bytes, is_final = max_bytes, 0, False
    reads: list[PartitionRead] = []
    for each in list(session.due):
        read = _read(each, partitions, min(each.max_bytes, left_bytes), is_first=not total_bytes)
        reads.append(read)
        if read.range is not None:
            total_bytes += read.range.length
            left_bytes = max(0, left_bytes - read.range.length)
            # Others come before it next time, or one whose batch is too large for what is left
            # would never be the first (FT-2, FT-6).
            del session.due[each]
            session.due[each] = None
        elif read.is_final or (session.hears_watermarks and _has_new_watermark(read)):
            is_final = True
        elif _is_told(each):
            del session.due[each]
    return FetchReads(reads, total_bytes, is_final)


def _has_new_watermark(read: PartitionRead) -> bool:
    return not read.error and read.high_watermark != read.wanted.told_high_watermark


def _is_told(wanted: FollowedPartition) -> bool:
    """Whether its follower knows all there is to know."""
    log = None if wanted.hosted is None else wanted.hosted.log
    return (
        log is not None
        and wanted.offset == log.end_offset
        and wanted.told_high_watermark == log.high_watermark
        and wanted.told_log_start == log.log_start_offset
    )


def _read(
    wanted: FollowedPartition, partitions: ReplicaManager, max_bytes: int, *, is_first: bool
) -> PartitionRead:
    former = wanted.hosted
    hosted = find_wanted(wanted, partitions)
    if isinstance(hosted, ErrorCode):
        return PartitionRead(wanted, hosted)
    if hosted is not former:
        wanted.attach(hosted)
    refusal = hosted.refuse(wanted.current_leader_epoch)
    if refusal is not None:
        return PartitionRead(wanted, refusal)
    try:
        log = hosted.opened()
        if not hosted.has_follower(wanted.session.replica_id):
            return PartitionRead(wanted, _not_a_replica(wanted))
        diverging = divergence(log, wanted)
        if diverging is not None:
            return add_divergence(wanted, log, diverging)
        # The offset is judged before it is believed.
        log.check_offset(wanted.offset)
        if wanted.is_named:
            wanted.is_named = False
            if not hosted.fetched(_fetch_of(wanted)):
                return PartitionRead(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not hosted.may_send(wanted.session.replica_id):
            return without_records(wanted, log)
        read = read_partition(
            wanted, log, max_bytes=max_bytes, bound=ReadBound.LOG_END, at_least_one=is_first
        )
        if read.range is not None:
            hosted.note_sent(read.range.length)
        return read
    except HeadwaterError as error:
        return PartitionRead(wanted, error.code)


def _not_a_replica(wanted: FollowedPartition) -> ErrorCode:
    """EP-10: with an epoch, the follower may know something that is news to us."""
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
        pulse=session,
    )
