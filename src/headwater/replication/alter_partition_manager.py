"""Send ISR changes to the controller with AlterPartition and apply its answers.

The changes of all partitions travel together, one request at a time.

Note: after an error or a timeout a change is only sent again if the partition still has it pending.
Metadata that arrived meanwhile may have made it obsolete.
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
"""Delay before a retry, as in Kafka 4.1."""

_CHECK_REJECTED_MS: Final = 500
"""After a rejected change, check the ISR again after this time.

The controller may not have processed the registration of a restarted follower yet. A follower that
has caught up does not name the partition in its fetches, so no fetch triggers the next attempt.
"""


class IsrProposer(Protocol):
    """A partition that this broker leads and that may propose ISR changes."""

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def number(self) -> int: ...

    @property
    def proposal(self) -> IsrProposal | None:
        """The pending change, if there is one."""

    def member_epochs(self, proposal: IsrProposal) -> list[tuple[NodeId, int]]:
        """Return the proposed ISR with each member's broker epoch, -1 if unknown."""

    def handle_alter_partition_response(
        self, proposal: IsrProposal, answer: CommittedIsr | ErrorCode
    ) -> ProposalOutcome: ...

    def check_isr(self) -> None:
        """Propose an ISR change if one is due."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Broker id and broker epoch that AlterPartition requests carry."""

    node_id: NodeId
    broker_epoch: int


class AlterPartitionManager:
    """Holds at most one pending ISR change per partition."""

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
        self._pending: dict[IsrProposer, IsrProposal] = {}
        self._is_in_flight = False
        self._rejected: dict[IsrProposer, None] = {}
        self._retry = WakeupTimer(timer, self._send)
        self._check_timer = WakeupTimer(timer, self._check_rejected)
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, isr_proposer: IsrProposer, proposal: IsrProposal) -> None:
        """Send this change as soon as the request in flight is answered."""
        self._pending[isr_proposer] = proposal
        if not self._is_in_flight and not self._retry.is_set:
            # Not at once: other partitions may add changes in the same turn of the event loop.
            self._retry.set(self._clock.steady_ms())

    def close(self) -> None:
        self._is_closed = True
        self._retry.cancel()
        self._check_timer.cancel()
        self._pending.clear()
        self._rejected.clear()

    def _send(self) -> None:
        if self._is_closed or self._is_in_flight:
            return
        # Metadata may have settled the change, or this broker may not lead the partition any more.
        for isr_proposer, proposal in list(self._pending.items()):
            if isr_proposer.proposal is not proposal:
                del self._pending[isr_proposer]
        if not self._pending:
            return
        controller = self._controller()
        if controller == NO_CONTROLLER:
            self._retry_later()
            return
        sent = dict(self._pending)
        self._is_in_flight = True
        self._inter_broker_client.send_request(
            controller,
            _request(self._sender(), sent),
            purpose=Purpose.TO_CONTROLLER,
            timeout_ms=self._timeout_ms,
            then=lambda response: self._handle_response(sent, response),
            on_error=self._handle_failure,
        )

    def _handle_response(self, sent: dict[IsrProposer, IsrProposal], response: Message) -> None:
        assert isinstance(response, AlterPartitionResponse)
        self._is_in_flight = False
        if response.error_code:
            # The controller rejected the whole request: it is not the controller (any more), or it
            # knows another epoch of this broker.
            self._retry_later()
            return
        results = {
            (topic.topic_id, result.partition_index): result
            for topic in response.topics
            for result in topic.partitions
        }
        must_wait = False
        for isr_proposer, proposal in sent.items():
            result = results.get((isr_proposer.topic_id, isr_proposer.number))
            # A partition that is missing in the response is retried.
            answer = ErrorCode.UNKNOWN_SERVER_ERROR if result is None else _answer(result)
            outcome = isr_proposer.handle_alter_partition_response(proposal, answer)
            if outcome is ProposalOutcome.RETRY:
                must_wait = True
            elif self._pending.get(isr_proposer) is proposal:
                del self._pending[isr_proposer]
            if outcome is ProposalOutcome.WITHDRAWN:
                self._rejected[isr_proposer] = None
        if self._rejected and not self._check_timer.is_set:
            self._check_timer.set(self._clock.steady_ms() + _CHECK_REJECTED_MS)
        if must_wait:
            self._retry_later()
        else:
            self._send()

    def _check_rejected(self) -> None:
        rejected, self._rejected = self._rejected, {}
        for isr_proposer in rejected:
            isr_proposer.check_isr()

    def _handle_failure(self, _: HeadwaterError) -> None:
        self._is_in_flight = False
        self._retry_later()

    def _retry_later(self) -> None:
        if not self._is_closed:
            self._retry.set(self._clock.steady_ms() + _RETRY_MS)


def _request(
    sender: BrokerIdentity, changes: dict[IsrProposer, IsrProposal]
) -> AlterPartitionRequest:
    by_topic: dict[TopicId, list[PartitionData]] = {}
    for isr_proposer, proposal in changes.items():
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
