"""One partition that this broker holds: its place in the cluster, its log, and who waits for it.

The log is opened, or made, when it is first needed: a topic of a thousand partitions exists at
once, and its folders come as they are used or in the background. What a reader would get wrong: a
broker that should lead or follow does neither before the log is open.

Those who wait are of three kinds. `readers` are told when consumers may see more, `tails` are the
followers that fetch here and see everything, and the waits of `leading` are writes that want to be
everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.metadata.cluster_image import NO_LEADER, PartitionRegistration
from headwater.replication.isr_state import CommittedIsr, IsrProposal, ProposalOutcome
from headwater.replication.leader_state import FollowerFetch, LeaderState
from headwater.replication.purgatory.delayed_produce import DelayedProduce, DelayedProducePurgatory
from headwater.replication.transaction_verification import TransactionVerification
from headwater.security.authorization.authorizer import Resource, ResourceKind
from headwater.storage.log.unified_log import UnifiedLog

if TYPE_CHECKING:
    from headwater.replication.pending_appends import PendingAppend
    from headwater.replication.replica_services import ReplicaServices

OpenLog = Callable[["Partition"], UnifiedLog]

_LOST: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER


class HostedTopic:
    """What the partitions of a topic share."""

    __slots__ = ("bytes_in", "bytes_out", "name", "records_in", "resource", "topic_id")

    def __init__(self, name: str, topic_id: TopicId) -> None:
        self.name = name
        self.topic_id = topic_id
        # What a client needs rights to, made once and asked about with every request.
        self.resource = Resource(ResourceKind.TOPIC, name)
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0


class Partition:
    """See the module. For the loop's thread only."""

    __slots__ = (
        "_is_led",
        "_node_id",
        "_open_log",
        "_ties",
        "_unseen_bytes",
        "guard",
        "is_deleted",
        "leading",
        "log",
        "name",
        "readers",
        "start_waits",
        "state",
        "tails",
        "topic",
        "waiting",
    )

    def __init__(
        self,
        topic: HostedTopic,
        number: int,
        state: PartitionRegistration,
        *,
        node_id: NodeId,
        open_log: OpenLog,
        ties: ReplicaServices | None = None,
    ) -> None:
        """Without `ties` there are no other brokers."""
        self.topic = topic
        self.name = TopicPartition(topic.name, number)
        self.log: UnifiedLog | None = None
        self.state = state
        # None where another broker leads, or where there is no other replica.
        self.leading: LeaderState | None = None
        self.readers: dict[PartitionListener, None] = {}
        self.tails: dict[LogTailListener, None] = {}
        # DeleteRecords that wait until followers have deleted too.
        self.start_waits = DelayedProducePurgatory()
        # Batches that are being prepared, and those that came after them (see `pending_appends`).
        self.waiting: deque[PendingAppend] = deque()
        # Made with the first transaction (see `transactional_append`).
        self.guard: TransactionVerification | None = None
        self.is_deleted = False
        self._is_led = state.leader == node_id
        self._node_id = node_id
        self._open_log = open_log
        self._ties = ties
        # Appended since the high watermark was last at the log's end.
        self._unseen_bytes = 0

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def is_led(self) -> bool:
        return self._is_led

    @property
    def is_followed_here(self) -> bool:
        """Whether this broker should fetch it from another one.

        What was removed says no, whatever its last place: its log may have another host by now.
        """
        state = self.state
        if self.is_deleted or self._is_led or state.leader == NO_LEADER:
            return False
        return self._node_id in state.replicas

    # Its place in the cluster.

    def place(self, state: PartitionRegistration) -> None:
        """The cluster has said who holds and who leads it; what is older than known is dropped."""
        if state.partition_epoch < self.state.partition_epoch:
            return
        former, self.state = self.state, state
        self._is_led = state.leader == self._node_id
        if self.log is not None:
            self._take_role(self.log, is_new=state.leader_epoch != former.leader_epoch)
        self.notify(0)

    def opened(self) -> UnifiedLog:
        """Its log. `StorageError` where the disk failed, `UnreadableLog` where it is damaged.

        What was removed has none any more: under its name there may be another one's.
        """
        if self.is_deleted:
            raise StorageError(f"{self.name} was removed")
        if self.log is None:
            self.log = log = self._open_log(self)
            self._take_role(log, is_new=True)
        return self.log

    def remove(self, code: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """The partition is gone, or not here any more; whoever waits for it hears of it."""
        self.is_deleted = True
        self._resign(code)
        if self._ties is not None:
            self._ties.unfollow(self)
        self.log = None
        self.notify(0)

    def go_offline(self) -> None:
        """The disk has failed under its log: neither lead nor follow."""
        self._resign(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._ties is not None:
            self._ties.unfollow(self)
        self.notify(0)

    def refuse(
        self, current_leader_epoch: int = -1, *, may_follow: bool = False
    ) -> ErrorCode | None:
        """Why a client's request does not belong here; the epoch is judged first (EP-4).

        Some requests are also for a follower to answer.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.state.leader_epoch:
            if current_leader_epoch < self.state.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self._is_led or (may_follow and self._node_id in self.state.replicas):
            return None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _take_role(self, log: UnifiedLog, *, is_new: bool) -> None:
        if log.failure is not None:
            self.go_offline()
            return
        if not self._is_led:
            self._resign(_LOST)
            if self._ties is not None:
                if self.is_followed_here:
                    self._ties.follow(self)
                else:
                    self._ties.unfollow(self)
            return
        if self._ties is not None:
            self._ties.unfollow(self)
        # EP-1.
        if log.epochs.latest < self.state.leader_epoch:
            log.begin_epoch(self.state.leader_epoch)
        self._lead(log, is_new=is_new)
        self._raise_high_watermark(log)
        self.look_at_followers()

    def _lead(self, log: UnifiedLog, *, is_new: bool) -> None:
        ties, state = self._ties, self.state
        if ties is None or (len(state.replicas) == 1 and self.leading is None):
            # The usual case of a broker that is alone stays as short as it can be.
            return
        if self.leading is None or is_new:
            self.leading = LeaderState(
                self._node_id,
                state,
                ties.rules,
                end_offset=log.end_offset,
                now_ms=ties.steady_ms(),
                waits=DelayedProducePurgatory() if self.leading is None else self.leading.waits,
            )
        else:
            self.leading.place(state, ties.steady_ms())

    def _resign(self, code: ErrorCode) -> None:
        leading, self.leading = self.leading, None
        if leading is not None:
            leading.waits.fail(code)
        self.start_waits.fail(code)
        # Markers may come while another broker leads, so what a coordinator said then is stale.
        self.guard = None

    # What is written here, and who has it.

    def lacks_replicas(self, min_insync_replicas: int) -> bool:
        """Whether fewer are in sync than an acks=all write needs (MIN-1)."""
        return len(self.state.isr) < min(min_insync_replicas, len(self.state.replicas))

    def advanced(self, log: UnifiedLog, size_bytes: int) -> None:
        """Something was appended: readers may see what all in-sync replicas have (HW-2)."""
        leading = self.leading
        if leading is None:
            log.raise_high_watermark(log.end_offset)
            if self.readers:
                self.notify(size_bytes)
            return
        leading.appended(log.end_offset)
        self._unseen_bytes += size_bytes
        for tail in self.tails:
            tail.appended(size_bytes)
        self._raise_high_watermark(log)

    def await_commit(self, wait: DelayedProduce, offset: int) -> bool:
        """Be told when all in-sync replicas have everything below an offset; False if nobody will.

        To be asked only where the high watermark is not there yet.
        """
        if self.leading is None:
            return False
        self.leading.waits.add(wait, offset)
        return True

    def leave_commit(self, wait: DelayedProduce) -> None:
        if self.leading is not None:
            self.leading.waits.leave(wait)

    def has_follower(self, node_id: NodeId) -> bool:
        return self.leading is not None and node_id in self.leading.followers

    def fetched(self, fetch: FollowerFetch) -> bool:
        """A follower has all up to an offset, and wants what follows (HW-4).

        False if it may not, because another broker of its id has come in its place.
        """
        leading, log, ties = self.leading, self.log, self._ties
        if leading is None or log is None or ties is None:
            return False
        if not leading.fetched(fetch, end_offset=log.end_offset, now_ms=ties.steady_ms()):
            return False
        proposal = leading.joining(fetch.node_id, high_watermark=log.high_watermark)
        if proposal is not None:
            ties.alter_partition_manager.add(self, proposal)
        self._raise_high_watermark(log)
        if len(self.start_waits):
            self.start_waits.reached(self.low_watermark, ErrorCode.NONE)
        return True

    def may_send(self, follower: NodeId) -> bool:
        """Whether a follower's quota lets it have more."""
        return self._ties is None or self._ties.may_send(self, follower)

    def note_sent(self, size_bytes: int) -> None:
        if self._ties is not None:
            self._ties.note_sent(self, size_bytes)

    def look_at_followers(self) -> None:
        """Ask for those to leave the in-sync replicas that lag, and for others to join (ISR-1)."""
        leading, log, ties = self.leading, self.log, self._ties
        if leading is None or log is None or ties is None:
            return
        now_ms = ties.steady_ms()
        proposal = leading.leaving(end_offset=log.end_offset, now_ms=now_ms) or leading.any_joining(
            high_watermark=log.high_watermark, now_ms=now_ms
        )
        if proposal is not None:
            ties.alter_partition_manager.add(self, proposal)
        # Somebody who was awaited, though not in sync, may be given up by now.
        self._raise_high_watermark(log)

    @property
    def low_watermark(self) -> int:
        """Below it no living replica has anything (DR-1)."""
        assert self.log is not None
        start = self.log.log_start_offset
        return start if self.leading is None else self.leading.low_watermark(start)

    def start_moved(self) -> None:
        """The log's start was raised here, and followers shall hear of it."""
        for tail in self.tails:
            tail.moved()

    def followed(
        self, log: UnifiedLog, *, high_watermark: int, log_start_offset: int, size_bytes: int
    ) -> None:
        """As a follower: what the leader says of its offsets, after its bytes are here (HW-5)."""
        before = log.high_watermark
        if log_start_offset > log.log_start_offset:
            log.raise_log_start(min(log_start_offset, log.end_offset))
        log.raise_high_watermark(high_watermark)
        if log.high_watermark != before and self.readers:
            self.tell_readers(size_bytes)

    @property
    def is_new_leader(self) -> bool:
        """Whether not all of what former leaders left is known to be committed (HW-8)."""
        leading, log = self.leading, self.log
        return leading is not None and log is not None and leading.epoch_start > log.high_watermark

    def _raise_high_watermark(self, log: UnifiedLog) -> None:
        leading, ties = self.leading, self._ties
        if leading is None:
            log.raise_high_watermark(log.end_offset)
            return
        assert ties is not None
        min_in_sync = min(log.settings.min_insync_replicas, len(self.state.replicas))
        committed = leading.committed_end(
            log.end_offset, min_in_sync=min_in_sync, now_ms=ties.steady_ms()
        )
        if committed <= log.high_watermark:
            return
        log.raise_high_watermark(committed)
        enough = len(leading.in_sync.maximal) >= min_in_sync
        code = ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        for tail in self.tails:
            tail.moved()
        size_bytes, self._unseen_bytes = self._unseen_bytes, 0
        self.tell_readers(size_bytes if log.high_watermark == log.end_offset else 0)
        leading.waits.reached(log.high_watermark, code)

    # `headwater.replication.alter_partition_manager.IsrProposer`.

    @property
    def topic_id(self) -> TopicId:
        return self.topic.topic_id

    @property
    def number(self) -> int:
        return self.name.partition

    @property
    def proposal(self) -> IsrProposal | None:
        return None if self.leading is None else self.leading.in_sync.pending

    def member_epochs(self, proposal: IsrProposal) -> list[tuple[NodeId, int]]:
        assert self.leading is not None
        return list(self.leading.broker_epochs(proposal.isr))

    def proposal_answered(
        self, proposal: IsrProposal, answer: CommittedIsr | ErrorCode
    ) -> ProposalOutcome:
        if self.leading is None or self.log is None:
            return ProposalOutcome.STALE
        verdict = self.leading.in_sync.answered(proposal, answer)
        if verdict is ProposalOutcome.GRANTED:
            assert isinstance(answer, CommittedIsr)
            assert self._ties is not None
            self._ties.note_in_sync(len(self.state.isr), len(answer.isr))
            self.state = replace(self.state, isr=answer.isr, partition_epoch=answer.partition_epoch)
            # Others may have waited for their turn.
            self.look_at_followers()
        if verdict in (ProposalOutcome.GRANTED, ProposalOutcome.WITHDRAWN):
            self._raise_high_watermark(self.log)
        return verdict

    # Those who wait for something to read.

    def notify(self, size_bytes: int) -> None:
        """Tell everybody who reads here."""
        self.tell_readers(size_bytes)
        for tail in list(self.tails):
            tail.changed()

    def tell_readers(self, size_bytes: int) -> None:
        for reader in list(self.readers):
            reader.more_to_read(size_bytes)


# Who hears that there is more to read in a partition.
#
# What a reader would get wrong: a consumer may read what is committed, and a follower all there
# is. So the same append is told to followers at once, and to consumers perhaps later.
class PartitionListener(Protocol):
    """A request that waits for bytes to read."""

    def more_to_read(self, size_bytes: int) -> None:
        """So many bytes more can be read, or, with 0, something else has changed."""


class LogTailListener(Protocol):
    """A follower that fetches from here."""

    def appended(self, size_bytes: int) -> None:
        """So many bytes more can be fetched."""

    def moved(self) -> None:
        """The high watermark or the log's start is another, which can wait for the next answer."""

    def changed(self) -> None:
        """Something else has changed: look again."""
