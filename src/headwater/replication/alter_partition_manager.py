"""A leader's wishes for other in-sync replicas, on their way to the controller (AlterPartition).

Wishes of all partitions go together, one request at a time. What a reader would get wrong: a wish
is not sent again because no answer came, but because the partition still has it: whatever the
controller has told meanwhile by other ways may have settled it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicId
from headwater.common.ports import Clock
from headwater.metadata.cluster_image import NO_CONTROLLER
from headwater.metadata.ports.inter_broker_client import InterBrokerClient, Purpose
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionResult,
    TopicData,
)
from headwater.protocol.older_versions import Message
from headwater.replication.isr_state import CommittedIsr, IsrProposal, ProposalOutcome
from headwater.replication.purgatory.timer import Timer, WakeupTimer

_RETRY_MS: Final = 50
"""How long to wait for another try. Kafka's brokers do this (4.1)."""

_LOOK_AGAIN_MS: Final = 500
"""After a refusal: the controller may not have dealt yet with a broker that came back, and one that
has everything says nothing more of it by which its leader would be reminded."""


class IsrProposer(Protocol):
    """A led partition that would like other in-sync replicas."""

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def number(self) -> int: ...

    @property
    def proposal(self) -> IsrProposal | None:
        """What it would like now."""

    def member_epochs(self, proposal: IsrProposal) -> list[tuple[NodeId, int]]:
        """The proposed replicas and the broker epochs they fetched with; -1 where unknown."""

    def proposal_answered(
        self, proposal: IsrProposal, answer: CommittedIsr | ErrorCode
    ) -> ProposalOutcome: ...

    def look_at_followers(self) -> None:
        """Whether it would like something now."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """As whom a broker speaks to the controller."""

    node_id: NodeId
    broker_epoch: int


class AlterPartitionManager:
    """See the module. At most one wish of each partition."""

    def __init__(
        self,
        inter_broker_client: InterBrokerClient,
        clock: Clock,
        timer: Timer,
        *,
        sender: Callable[[], BrokerIdentity],
        controller: Callable[[], NodeId],
        timeout_ms: int,
    ) -> None:
        self._inter_broker_client = inter_broker_client
        self._clock = clock
        self._sender = sender
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._wishes: dict[IsrProposer, IsrProposal] = {}
        self._is_under_way = False
        self._refused: dict[IsrProposer, None] = {}
        self._retry = WakeupTimer(timer, self._send)
        self._look = WakeupTimer(timer, self._look_again)
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._wishes)

    def add(self, isr_proposer: IsrProposer, proposal: IsrProposal) -> None:
        """Ask for this as soon as the last request is answered."""
        self._wishes[isr_proposer] = proposal
        if not self._is_under_way and not self._retry.is_set:
            # Not now: more may come within this turn.
            self._retry.set(self._clock.steady_ms())

    def close(self) -> None:
        self._is_closed = True
        self._retry.cancel()
        self._look.cancel()
        self._wishes.clear()
        self._refused.clear()

    def _send(self) -> None:
        if self._is_closed or self._is_under_way:
            return
        # A partition may have been told what it asks for, or have lost its leadership.
        for isr_proposer, proposal in list(self._wishes.items()):
            if isr_proposer.proposal is not proposal:
                del self._wishes[isr_proposer]
        if not self._wishes:
            return
        controller = self._controller()
        if controller == NO_CONTROLLER:
            self._try_later()
            return
        sent = dict(self._wishes)
        self._is_under_way = True
        self._inter_broker_client.ask(
            controller,
            _request(self._sender(), sent),
            purpose=Purpose.PETITION,
            timeout_ms=self._timeout_ms,
            then=lambda response: self._answered(sent, response),
            otherwise=self._failed,
        )

    def _answered(self, sent: dict[IsrProposer, IsrProposal], response: Message) -> None:
        assert isinstance(response, AlterPartitionResponse)
        self._is_under_way = False
        if response.error_code:
            # The whole request was refused: by a broker that is not the controller (any more), or
            # since it knows another epoch of ours.
            self._try_later()
            return
        results = {
            (topic.topic_id, result.partition_index): result
            for topic in response.topics
            for result in topic.partitions
        }
        must_wait = False
        for isr_proposer, proposal in sent.items():
            result = results.get((isr_proposer.topic_id, isr_proposer.number))
            # Who is not spoken of asks again.
            answer = ErrorCode.UNKNOWN_SERVER_ERROR if result is None else _answer(result)
            verdict = isr_proposer.proposal_answered(proposal, answer)
            if verdict is ProposalOutcome.AGAIN:
                must_wait = True
            elif self._wishes.get(isr_proposer) is proposal:
                del self._wishes[isr_proposer]
            if verdict is ProposalOutcome.WITHDRAWN:
                self._refused[isr_proposer] = None
        if self._refused and not self._look.is_set:
            self._look.set(self._clock.steady_ms() + _LOOK_AGAIN_MS)
        if must_wait:
            self._try_later()
        else:
            self._send()

    def _look_again(self) -> None:
        refused, self._refused = self._refused, {}
        for isr_proposer in refused:
            isr_proposer.look_at_followers()

    def _failed(self, _: HeadwaterError) -> None:
        self._is_under_way = False
        self._try_later()

    def _try_later(self) -> None:
        if not self._is_closed:
            self._retry.set(self._clock.steady_ms() + _RETRY_MS)


def _request(
    sender: BrokerIdentity, wishes: dict[IsrProposer, IsrProposal]
) -> AlterPartitionRequest:
    by_topic: dict[TopicId, list[PartitionData]] = {}
    for isr_proposer, proposal in wishes.items():
        members = tuple(
            BrokerState(
                broker_id=node_id,
                broker_epoch=sender.broker_epoch if node_id == sender.node_id else epoch,
            )
            for node_id, epoch in isr_proposer.member_epochs(proposal)
        )
        by_topic.setdefault(isr_proposer.topic_id, []).append(
            PartitionData(
                partition_index=isr_proposer.number,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=members,
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=sender.node_id,
        broker_epoch=sender.broker_epoch,
        topics=tuple(
            TopicData(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        ),
    )


def _answer(result: PartitionResult) -> CommittedIsr | ErrorCode:
    if result.error_code:
        return result.error_code
    return CommittedIsr(
        leader=NodeId(result.leader_id),
        leader_epoch=result.leader_epoch,
        isr=tuple(map(NodeId, result.isr)),
        partition_epoch=result.partition_epoch,
    )
