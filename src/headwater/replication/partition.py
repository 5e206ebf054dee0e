"""One partition of this broker: its role, its log and its waiting requests.

The log is opened or created on first use or in the background, so a topic with a thousand
partitions is available at once.

Note: the broker neither leads nor follows a partition before its log is open.

Three kinds of listeners wait here: `readers` are delayed fetches of consumers (they see up to the
high watermark), `tail_listeners` are the fetch sessions of followers (they see up to the log end),
and `leader_state.delayed_produces` has the delayed produces with acks=all.
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
    """State that the partitions of a topic share."""

    __slots__ = ("bytes_in", "bytes_out", "name", "records_in", "resource", "topic_id")

    def __init__(self, name: str, topic_id: TopicId) -> None:
        self.name = name
        self.topic_id = topic_id
        # Created once, because every request is authorized against it.
        self.resource = Resource(ResourceKind.TOPIC, name)
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0


class Partition:
    """Used on the event loop's thread only."""

    __slots__ = (
        "_is_leader",
        "_node_id",
        "_open_log",
        "_services",
        "_unseen_bytes",
        "delayed_delete_records",
        "is_deleted",
        "leader_state",
        "log",
        "name",
        "pending_appends",
        "readers",
        "state",
        "tail_listeners",
        "topic",
        "transaction_verification",
    )

    def __init__(
        self,
        topic: HostedTopic,
        number: int,
        state: PartitionRegistration,
        *,
        node_id: NodeId,
        open_log: OpenLog,
        services: ReplicaServices | None = None,
    ) -> None:
        """`services` is None on a standalone broker."""
        self.topic = topic
        self.name = TopicPartition(topic.name, number)
        self.log: UnifiedLog | None = None
        self.state = state
        # None if another broker leads, or if there is only one replica.
        self.leader_state: LeaderState | None = None
        self.readers: dict[PartitionListener, None] = {}
        self.tail_listeners: dict[LogTailListener, None] = {}
        # DeleteRecords requests that wait for the followers' log start offsets.
        self.delayed_delete_records = DelayedProducePurgatory()
        # Batches that are being validated on a thread, and the batches behind them
        # (`pending_appends`).
        self.pending_appends: deque[PendingAppend] = deque()
        # Created with the first transaction (see `transactional_append`).
        self.transaction_verification: TransactionVerification | None = None
        self.is_deleted = False
        self._is_leader = state.leader == node_id
        self._node_id = node_id
        self._open_log = open_log
        self._services = services
        # Bytes appended since the high watermark last reached the log end.
        self._unseen_bytes = 0

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self._is_leader

    @property
    def is_follower(self) -> bool:
        """Whether this broker should fetch the partition from its leader.

        False for a removed partition: its log may belong to another `Partition` object by now.
        """
        state = self.state
        if self.is_deleted or self._is_leader or state.leader == NO_LEADER:
            return False
        return self._node_id in state.replicas

    # Role: leader or follower.

    def update_state(self, state: PartitionRegistration) -> None:
        """Apply a new partition state unless it is older than the current one."""
        if state.partition_epoch < self.state.partition_epoch:
            return
        former, self.state = self.state, state
        self._is_leader = state.leader == self._node_id
        self._count_overtaken_proposal(former)
        if self.log is not None:
            self._take_role(self.log, is_new=state.leader_epoch != former.leader_epoch)
        self.notify(0)

    def _count_overtaken_proposal(self, former: PartitionRegistration) -> None:
        """Count a pending ISR change that the metadata brings before the response does."""
        leader_state, services = self.leader_state, self._services
        if leader_state is None or services is None or leader_state.isr.pending is None:
            return
        if sorted(leader_state.isr.pending.isr) == sorted(self.state.isr) != sorted(former.isr):
            services.record_isr_change(len(former.isr), len(self.state.isr))

    def open_log(self) -> UnifiedLog:
        """Return the log, opening it first if necessary.

        Raises `StorageError` if the disk failed, `UnreadableLog` if the log is damaged. A removed
        partition has no log: its name may be in use by another one.
        """
        if self.is_deleted:
            raise StorageError(f"partition {self.name} was removed from this broker")
        if self.log is None:
            self.log = log = self._open_log(self)
            self._take_role(log, is_new=True)
        return self.log

    def remove(self, code: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """The partition was deleted or moved away; waiting requests fail with `code`."""
        self.is_deleted = True
        self._resign(code)
        if self._services is not None:
            self._services.unfollow(self)
        self.log = None
        self.notify(0)

    def go_offline(self) -> None:
        """The log's disk failed: stop leading and following."""
        self._resign(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._services is not None:
            self._services.unfollow(self)
        self.notify(0)

    def leadership_error(
        self, current_leader_epoch: int = -1, *, may_follow: bool = False
    ) -> ErrorCode | None:
        """Return the error for a request that this broker cannot serve.

        The leader epoch is checked first (EP-4). `may_follow` is for requests that a follower may
        answer too.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.state.leader_epoch:
            if current_leader_epoch < self.state.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self._is_leader or (may_follow and self._node_id in self.state.replicas):
            return None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _take_role(self, log: UnifiedLog, *, is_new: bool) -> None:
        if log.failure is not None:
            self.go_offline()
            return
        if not self._is_leader:
            self._resign(_LOST)
            if self._services is not None:
                if self.is_follower:
                    self._services.follow(self)
                else:
                    self._services.unfollow(self)
            return
        if self._services is not None:
            self._services.unfollow(self)
        # EP-1.
        if log.epochs.latest < self.state.leader_epoch:
            log.begin_epoch(self.state.leader_epoch)
        self._become_leader(log, is_new=is_new)
        self._raise_high_watermark(log)
        self.check_isr()

    def _become_leader(self, log: UnifiedLog, *, is_new: bool) -> None:
        services, state = self._services, self.state
        if services is None or (len(state.replicas) == 1 and self.leader_state is None):
            # Shortcut for the common case of a single replica.
            return
        if self.leader_state is None or is_new:
            self.leader_state = LeaderState(
                self._node_id,
                state,
                services.rules,
                end_offset=log.end_offset,
                now_ms=services.steady_ms(),
                delayed_produces=DelayedProducePurgatory()
                if self.leader_state is None
                else self.leader_state.delayed_produces,
            )
        else:
            self.leader_state.update(state, services.steady_ms())

    def _resign(self, code: ErrorCode) -> None:
        leader_state, self.leader_state = self.leader_state, None
        if leader_state is not None:
            leader_state.delayed_produces.fail(code)
        self.delayed_delete_records.fail(code)
        # Another leader may write markers in between, so earlier verifications are void.
        self.transaction_verification = None

    # Appends and the high watermark.

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Return whether the ISR is too small for a produce with acks=all (MIN-1)."""
        return len(self.state.isr) < min(min_insync_replicas, len(self.state.replicas))

    def on_append(self, log: UnifiedLog, size_bytes: int) -> None:
        """After an append: advance the high watermark and notify listeners (HW-2)."""
        leader_state = self.leader_state
        if leader_state is None:
            log.raise_high_watermark(log.end_offset)
            if self.readers:
                self.notify(size_bytes)
            return
        leader_state.appended(log.end_offset)
        self._unseen_bytes += size_bytes
        for tail in self.tail_listeners:
            tail.appended(size_bytes)
        self._raise_high_watermark(log)

    def add_delayed_produce(self, wait: DelayedProduce, offset: int) -> bool:
        """Call `wait` when the high watermark reaches an offset. False if it never will.

        Call only while the high watermark is below the offset.
        """
        if self.leader_state is None:
            return False
        self.leader_state.delayed_produces.add(wait, offset)
        return True

    def remove_delayed_produce(self, wait: DelayedProduce) -> None:
        if self.leader_state is not None:
            self.leader_state.delayed_produces.remove(wait)

    def has_follower(self, node_id: NodeId) -> bool:
        return self.leader_state is not None and node_id in self.leader_state.followers

    def update_follower_fetch_state(self, fetch: FollowerFetch) -> bool:
        """Record a follower's fetch and advance the ISR and high watermark (HW-4).

        False if the fetch comes from an outdated registration of the broker.
        """
        leader_state, log, services = self.leader_state, self.log, self._services
        if leader_state is None or log is None or services is None:
            return False
        if not leader_state.update_follower_fetch_state(
            fetch, end_offset=log.end_offset, now_ms=services.steady_ms()
        ):
            return False
        proposal = leader_state.expand_isr(fetch.node_id, high_watermark=log.high_watermark)
        if proposal is not None:
            services.alter_partition_manager.add(self, proposal)
        self._raise_high_watermark(log)
        if len(self.delayed_delete_records):
            self.delayed_delete_records.check_and_complete(self.low_watermark, ErrorCode.NONE)
        return True

    def may_send(self, follower: NodeId) -> bool:
        """Return whether the leader replication quota allows sending to this follower."""
        return self._services is None or self._services.may_send(self, follower)

    def record_sent(self, size_bytes: int) -> None:
        if self._services is not None:
            self._services.record_sent(self, size_bytes)

    def check_isr(self) -> None:
        """Propose to remove lagging followers and to add caught-up ones (ISR-1)."""
        leader_state, log, services = self.leader_state, self.log, self._services
        if leader_state is None or log is None or services is None:
            return
        now_ms = services.steady_ms()
        proposal = leader_state.shrink_isr(
            end_offset=log.end_offset, now_ms=now_ms
        ) or leader_state.expand_isr_with_any(high_watermark=log.high_watermark, now_ms=now_ms)
        if proposal is not None:
            services.alter_partition_manager.add(self, proposal)
        # A follower that was about to join counted for the high watermark; it may not any more.
        self._raise_high_watermark(log)

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of all live replicas (DR-1)."""
        assert self.log is not None
        start = self.log.log_start_offset
        return start if self.leader_state is None else self.leader_state.low_watermark(start)

    def on_log_start_change(self) -> None:
        """The log start was raised here; fetch responses carry it to followers."""
        for tail in self.tail_listeners:
            tail.moved()

    def on_follower_append(
        self, log: UnifiedLog, *, high_watermark: int, log_start_offset: int, size_bytes: int
    ) -> None:
        """As a follower: apply the leader's high watermark and log start (HW-5)."""
        before = log.high_watermark
        if log_start_offset > log.log_start_offset:
            log.raise_log_start(min(log_start_offset, log.end_offset))
        log.raise_high_watermark(high_watermark)
        if log.high_watermark != before and self.readers:
            self.notify_readers(size_bytes)

    @property
    def is_new_leader(self) -> bool:
        """Whether records of former leader epochs may still be uncommitted (HW-8)."""
        leader_state, log = self.leader_state, self.log
        return (
            leader_state is not None
            and log is not None
            and leader_state.epoch_start > log.high_watermark
        )

    def _raise_high_watermark(self, log: UnifiedLog) -> None:
        leader_state, services = self.leader_state, self._services
        if leader_state is None:
            log.raise_high_watermark(log.end_offset)
            return
        assert services is not None
        min_in_sync = min(log.settings.min_insync_replicas, len(self.state.replicas))
        committed = leader_state.committed_end(
            log.end_offset, min_in_sync=min_in_sync, now_ms=services.steady_ms()
        )
        if committed <= log.high_watermark:
            return
        log.raise_high_watermark(committed)
        has_enough_replicas = len(leader_state.isr.maximal) >= min_in_sync
        code = ErrorCode.NONE if has_enough_replicas else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        for tail in self.tail_listeners:
            tail.moved()
        size_bytes, self._unseen_bytes = self._unseen_bytes, 0
        self.notify_readers(size_bytes if log.high_watermark == log.end_offset else 0)
        leader_state.delayed_produces.check_and_complete(log.high_watermark, code)

    # `headwater.replication.alter_partition_manager.IsrProposer`.

    @property
    def topic_id(self) -> TopicId:
        return self.topic.topic_id

    @property
    def number(self) -> int:
        return self.name.partition

    @property
    def proposal(self) -> IsrProposal | None:
        return None if self.leader_state is None else self.leader_state.isr.pending

    def member_epochs(self, proposal: IsrProposal) -> list[tuple[NodeId, int]]:
        assert self.leader_state is not None
        return list(self.leader_state.broker_epochs(proposal.isr))

    def handle_alter_partition_response(
        self, proposal: IsrProposal, answer: CommittedIsr | ErrorCode
    ) -> ProposalOutcome:
        if self.leader_state is None or self.log is None:
            return ProposalOutcome.STALE
        outcome = self.leader_state.isr.handle_response(proposal, answer)
        if outcome is ProposalOutcome.ACCEPTED:
            assert isinstance(answer, CommittedIsr)
            assert self._services is not None
            self._services.record_isr_change(len(self.state.isr), len(answer.isr))
            self.state = replace(self.state, isr=answer.isr, partition_epoch=answer.partition_epoch)
            # Other followers may have been waiting for the pending change.
            self.check_isr()
        if outcome in (ProposalOutcome.ACCEPTED, ProposalOutcome.WITHDRAWN):
            self._raise_high_watermark(self.log)
        return outcome

    # Listeners.

    def notify(self, size_bytes: int) -> None:
        """Wake all fetches that wait on this partition."""
        self.notify_readers(size_bytes)
        for tail in list(self.tail_listeners):
            tail.changed()

    def notify_readers(self, size_bytes: int) -> None:
        for reader in list(self.readers):
            reader.more_to_read(size_bytes)


# Note: consumers may read up to the high watermark, followers up to the log end. The same append
# wakes followers at once and consumers when the high watermark advances.
class PartitionListener(Protocol):
    """A delayed fetch of a consumer."""

    def more_to_read(self, size_bytes: int) -> None:
        """`size_bytes` more can be read; 0 if something else has changed."""


class LogTailListener(Protocol):
    """A partition in the fetch session of a follower."""

    def appended(self, size_bytes: int) -> None:
        """`size_bytes` more can be fetched."""

    def moved(self) -> None:
        """The high watermark or log start offset moved; this need not end a waiting fetch."""

    def changed(self) -> None:
        """The partition's role or log changed: a waiting fetch must check it again."""
