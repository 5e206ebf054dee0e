"""Which replicas are in sync, as the cluster has agreed, and as the leader would like it.

Pure. The leader proposes, the controller decides (AlterPartition), one change at a time (ISR-4).
What a reader would get wrong: until the answer is there, a replica that shall come counts already,
and one that shall go counts still. So the high watermark is right whatever the answer will be.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import PartitionRegistration

_BACK: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
_METADATA_COMES: Final = frozenset(
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
    """The in-sync replicas that a leader asks for, and what it knows while it does."""

    isr: tuple[NodeId, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedIsr:
    """What the controller says is so now."""

    leader: NodeId
    leader_epoch: int
    isr: tuple[NodeId, ...]
    partition_epoch: int


class ProposalOutcome(Enum):
    """What an answer to a proposal leads to."""

    GRANTED = "the answer is the new state"
    WITHDRAWN = "all is as it was before the proposal"
    WAIT = "the controller knows something newer, which is on its way"
    AGAIN = "propose the same again, somewhat later"
    STALE = "nobody waits for this answer any more"


class IsrState:
    """The in-sync replicas of one partition during one leader epoch."""

    __slots__ = ("committed", "leader_epoch", "maximal", "partition_epoch", "pending")

    def __init__(self, state: PartitionRegistration) -> None:
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.committed = state.isr
        # The committed ones and those that shall come.
        self.maximal = state.isr
        self.pending: IsrProposal | None = None

    def place(self, isr: tuple[NodeId, ...], partition_epoch: int) -> None:
        """The controller has spoken, asked or not. What it knew not of is void."""
        if partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.committed = isr
            self._settle()

    def propose_joining(self, node_id: NodeId) -> IsrProposal | None:
        """None while another change is under way."""
        if self.pending is not None or node_id in self.committed:
            return None
        proposal = self._propose((*self.committed, node_id))
        self.maximal = proposal.isr
        return proposal

    def propose_leaving(self, leaving: tuple[NodeId, ...]) -> IsrProposal | None:
        staying = tuple(each for each in self.committed if each not in leaving)
        if self.pending is not None or staying == self.committed:
            return None
        return self._propose(staying)

    def answered(self, proposal: IsrProposal, answer: CommittedIsr | ErrorCode) -> ProposalOutcome:
        """ISR-5."""
        if self.pending is not proposal:
            return ProposalOutcome.STALE
        if isinstance(answer, CommittedIsr):
            return self._granted(answer)
        if answer in _BACK:
            self._settle()
            return ProposalOutcome.WITHDRAWN
        return ProposalOutcome.WAIT if answer in _METADATA_COMES else ProposalOutcome.AGAIN

    def _granted(self, answer: CommittedIsr) -> ProposalOutcome:
        if answer.leader_epoch != self.leader_epoch:
            return ProposalOutcome.WAIT
        if answer.partition_epoch > self.partition_epoch:
            self.place(answer.isr, answer.partition_epoch)
            return ProposalOutcome.GRANTED
        if answer.partition_epoch == self.partition_epoch:
            # The proposal is what the controller had already.
            self._settle()
            return ProposalOutcome.WITHDRAWN
        return ProposalOutcome.WAIT

    def _propose(self, isr: tuple[NodeId, ...]) -> IsrProposal:
        self.pending = IsrProposal(
            isr=isr, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch
        )
        return self.pending

    def _settle(self) -> None:
        self.pending = None
        self.maximal = self.committed
