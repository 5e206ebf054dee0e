"""A leader's wishes for other in-sync replicas, on their way to the controller (AlterPartition).

Wishes of all partitions go together, one request at a time. What a reader would get wrong: a wish
is not sent again because no answer came, but because the partition still has it: whatever the
controller has told meanwhile by other ways may have settled it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from headwater.cluster.colleagues import Colleagues, Errand
from headwater.cluster.image import NO_CONTROLLER
from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError
from headwater.model.ids import NodeId, TopicId
from headwater.model.ports import Clock
from headwater.replication.deadlines import Alarm, Deadlines
from headwater.replication.in_sync import Granted, Proposal, Verdict
from headwater.wire.lifting import Message
from headwater.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionResult,
    TopicData,
)

_RETRY_MS: Final = 50
"""How long to wait for another try. Kafka's brokers do this (4.1)."""

_LOOK_AGAIN_MS: Final = 500
"""After a refusal: the controller may not have dealt yet with a broker that came back, and one that
has everything says nothing more of it by which its leader would be reminded."""


class Petitioner(Protocol):
    """A led partition that would like other in-sync replicas."""

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def number(self) -> int: ...

    @property
    def proposal(self) -> Proposal | None:
        """What it would like now."""

    def member_epochs(self, proposal: Proposal) -> list[tuple[NodeId, int]]:
        """The proposed replicas and the broker epochs they fetched with; -1 where unknown."""

    def proposal_answered(self, proposal: Proposal, answer: Granted | ErrorCode) -> Verdict: ...

    def look_at_followers(self) -> None:
        """Whether it would like something now."""


@dataclass(frozen=True, slots=True)
class Sender:
    """As whom a broker speaks to the controller."""

    node_id: NodeId
    broker_epoch: int


class Petitions:
    """See the module. At most one wish of each partition."""

    def __init__(
        self,
        colleagues: Colleagues,
        clock: Clock,
        deadlines: Deadlines,
        *,
        sender: Callable[[], Sender],
        controller: Callable[[], NodeId],
        timeout_ms: int,
    ) -> None:
        self._colleagues = colleagues
        self._clock = clock
        self._sender = sender
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._wishes: dict[Petitioner, Proposal] = {}
        self._is_under_way = False
        self._refused: dict[Petitioner, None] = {}
        self._retry = Alarm(deadlines, self._send)
        self._look = Alarm(deadlines, self._look_again)
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._wishes)

    def add(self, petitioner: Petitioner, proposal: Proposal) -> None:
        """Ask for this as soon as the last request is answered."""
        self._wishes[petitioner] = proposal
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
        for petitioner, proposal in list(self._wishes.items()):
            if petitioner.proposal is not proposal:
                del self._wishes[petitioner]
        if not self._wishes:
            return
        controller = self._controller()
        if controller == NO_CONTROLLER:
            self._try_later()
            return
        sent = dict(self._wishes)
        self._is_under_way = True
        self._colleagues.ask(
            controller,
            _request(self._sender(), sent),
            errand=Errand.PETITION,
            timeout_ms=self._timeout_ms,
            then=lambda response: self._answered(sent, response),
            otherwise=self._failed,
        )

    def _answered(self, sent: dict[Petitioner, Proposal], response: Message) -> None:
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
        for petitioner, proposal in sent.items():
            result = results.get((petitioner.topic_id, petitioner.number))
            # Who is not spoken of asks again.
            answer = ErrorCode.UNKNOWN_SERVER_ERROR if result is None else _answer(result)
            verdict = petitioner.proposal_answered(proposal, answer)
            if verdict is Verdict.AGAIN:
                must_wait = True
            elif self._wishes.get(petitioner) is proposal:
                del self._wishes[petitioner]
            if verdict is Verdict.WITHDRAWN:
                self._refused[petitioner] = None
        if self._refused and not self._look.is_set:
            self._look.set(self._clock.steady_ms() + _LOOK_AGAIN_MS)
        if must_wait:
            self._try_later()
        else:
            self._send()

    def _look_again(self) -> None:
        refused, self._refused = self._refused, {}
        for petitioner in refused:
            petitioner.look_at_followers()

    def _failed(self, _: HeadwaterError) -> None:
        self._is_under_way = False
        self._try_later()

    def _try_later(self) -> None:
        if not self._is_closed:
            self._retry.set(self._clock.steady_ms() + _RETRY_MS)


def _request(sender: Sender, wishes: dict[Petitioner, Proposal]) -> AlterPartitionRequest:
    by_topic: dict[TopicId, list[PartitionData]] = {}
    for petitioner, proposal in wishes.items():
        members = tuple(
            BrokerState(
                broker_id=node_id,
                broker_epoch=sender.broker_epoch if node_id == sender.node_id else epoch,
            )
            for node_id, epoch in petitioner.member_epochs(proposal)
        )
        by_topic.setdefault(petitioner.topic_id, []).append(
            PartitionData(
                partition_index=petitioner.number,
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


def _answer(result: PartitionResult) -> Granted | ErrorCode:
    if result.error_code:
        return result.error_code
    return Granted(
        leader=NodeId(result.leader_id),
        leader_epoch=result.leader_epoch,
        isr=tuple(map(NodeId, result.isr)),
        partition_epoch=result.partition_epoch,
    )
