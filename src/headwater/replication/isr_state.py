"""The ISR of one partition, and which followers may join it or must leave it.

Pure. The leader proposes, the controller decides (AlterPartition), one change at a time (ISR-4).

Invariant: the high watermark is correct whatever the controller answers. While a change is pending,
a replica that is to be added already counts, and one that is to be removed still counts (the
maximal ISR, KIP-497).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import PartitionRegistration
from headwater.replication.follower_replica import FollowerReplica

_REJECTED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
_AWAITS_METADATA: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """The ISR that a leader proposes, and the epochs it knew when it did."""

    isr: tuple[NodeId, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedIsr:
    """The partition's state as the controller's AlterPartition response has it."""

    leader: NodeId
    leader_epoch: int
    isr: tuple[NodeId, ...]
    partition_epoch: int


class ProposalOutcome(Enum):
    """What an answer to a proposal leads to."""

    ACCEPTED = "the proposed ISR is committed"
    WITHDRAWN = "the ISR stays as it was before the proposal"
    WAIT = "newer metadata is on its way"
    RETRY = "retry the same proposal later"
    STALE = "the proposal is not pending any more"


class IsrState:
    """Committed and maximal ISR of one partition during one leader epoch."""

    __slots__ = ("committed", "leader_epoch", "maximal", "partition_epoch", "pending")

    def __init__(self, state: PartitionRegistration) -> None:
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.committed = state.isr
        # The committed ISR and the replicas that a pending proposal adds.
        self.maximal = state.isr
        self.pending: IsrProposal | None = None

    def update(self, isr: tuple[NodeId, ...], partition_epoch: int) -> None:
        """Apply a newer state from the controller; it replaces a pending proposal."""
        if partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.committed = isr
            self._clear_pending()

    def propose_expand(self, node_id: NodeId) -> IsrProposal | None:
        """Propose to add a replica. None while another change is pending."""
        if self.pending is not None or node_id in self.committed:
            return None
        proposal = self._propose((*self.committed, node_id))
        self.maximal = proposal.isr
        return proposal

    def propose_shrink(self, removed: tuple[NodeId, ...]) -> IsrProposal | None:
        """Propose to remove replicas. None while another change is pending."""
        remaining = tuple(each for each in self.committed if each not in removed)
        if self.pending is not None or remaining == self.committed:
            return None
        return self._propose(remaining)

    def handle_response(
        self, proposal: IsrProposal, answer: CommittedIsr | ErrorCode
    ) -> ProposalOutcome:
        """Apply the controller's answer to a proposal (ISR-5)."""
        if self.pending is not proposal:
            return ProposalOutcome.STALE
        if isinstance(answer, CommittedIsr):
            return self._apply_committed(answer)
        if answer in _REJECTED:
            self._clear_pending()
            return ProposalOutcome.WITHDRAWN
        return ProposalOutcome.WAIT if answer in _AWAITS_METADATA else ProposalOutcome.RETRY

    def _apply_committed(self, answer: CommittedIsr) -> ProposalOutcome:
        if answer.leader_epoch != self.leader_epoch:
            return ProposalOutcome.WAIT
        if answer.partition_epoch > self.partition_epoch:
            self.update(answer.isr, answer.partition_epoch)
            return ProposalOutcome.ACCEPTED
        if answer.partition_epoch == self.partition_epoch:
            # The controller already had the proposed ISR.
            self._clear_pending()
            return ProposalOutcome.WITHDRAWN
        return ProposalOutcome.WAIT

    def _propose(self, isr: tuple[NodeId, ...]) -> IsrProposal:
        self.pending = IsrProposal(
            isr=isr, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch
        )
        return self.pending

    def _clear_pending(self) -> None:
        self.pending = None
        self.maximal = self.committed


def is_caught_up(
    follower: FollowerReplica, leader_end_offset: int, *, now_ms: int, lag_max_ms: int
) -> bool:
    """Whether a follower was at the end within `replica.lag.time.max.ms` (ISR-1).

    A follower that is at the end now is caught up however long ago it fetched.
    """
    return follower.end_offset == leader_end_offset or now_ms - follower.caught_up_ms <= lag_max_ms


def out_of_sync_replicas(
    isr: tuple[NodeId, ...],
    followers: Mapping[NodeId, FollowerReplica],
    *,
    leader: NodeId,
    leader_end_offset: int,
    now_ms: int,
    lag_max_ms: int,
) -> tuple[NodeId, ...]:
    """Return ISR members to remove: lagging, or no replicas any more (ISR-1)."""
    return tuple(
        node_id
        for node_id in isr
        if node_id != leader
        and (
            node_id not in followers
            or not is_caught_up(
                followers[node_id], leader_end_offset, now_ms=now_ms, lag_max_ms=lag_max_ms
            )
        )
    )


def has_reached_isr(
    follower: FollowerReplica, *, high_watermark: int, epoch_start_offset: int
) -> bool:
    """Return whether a follower has all that the ISR has committed (ISR-3).

    It must also have reached the start of the leader epoch: below it, the high watermark of a new
    leader may be too low.
    """
    return follower.end_offset >= max(high_watermark, epoch_start_offset)
