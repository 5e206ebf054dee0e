"""ISR changes on their way to the controller: ISR-4, ISR-5."""

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.metadata.cluster_image import NO_CONTROLLER, PartitionRegistration
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionResult,
    TopicResult,
)
from headwater.replication.alter_partition_manager import AlterPartitionManager, BrokerIdentity
from headwater.replication.isr_state import CommittedIsr, IsrProposal, IsrState, ProposalOutcome
from headwater.replication.purgatory.timer import Timer
from tests.simulation.fakes.scripted_inter_broker_client import ScriptedInterBrokerClient
from tests.simulation.labs.broker_lab import ScriptedClock

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
TOPIC = TopicId(bytes(range(16)))


class LeaderPartition:
    """A partition with an ISR and nothing else."""

    def __init__(self, number: int) -> None:
        self.topic_id = TOPIC
        self.number = number
        self.in_sync = IsrState(
            PartitionRegistration(
                replicas=(ONE, TWO, THREE), isr=(ONE,), leader=ONE, leader_epoch=4
            )
        )
        self.outcomes: list[ProposalOutcome] = []
        self.looks = 0

    @property
    def proposal(self) -> IsrProposal | None:
        return self.in_sync.pending

    def member_epochs(self, proposal: IsrProposal) -> list[tuple[NodeId, int]]:
        return [(each, -1 if each == ONE else 70 + each) for each in proposal.isr]

    def handle_alter_partition_response(
        self, proposal: IsrProposal, answer: CommittedIsr | ErrorCode
    ) -> ProposalOutcome:
        self.outcomes.append(self.in_sync.handle_response(proposal, answer))
        return self.outcomes[-1]

    def check_isr(self) -> None:
        self.looks += 1


class Lab:
    def __init__(self) -> None:
        self.clock = ScriptedClock()
        self.timer = Timer()
        self.inter_broker_client = ScriptedInterBrokerClient()
        self.controller = NodeId(8)
        self.alter_partition_manager = AlterPartitionManager(
            self.inter_broker_client,
            self.clock,
            self.timer,
            sender=lambda: BrokerIdentity(ONE, 99),
            controller=lambda: self.controller,
            timeout_ms=500,
        )

    def expand_isr(self, partition: LeaderPartition, node_id: NodeId) -> None:
        proposal = partition.in_sync.propose_expand(node_id)
        assert proposal is not None
        self.alter_partition_manager.add(partition, proposal)

    def pass_time(self, duration_ms: int = 0) -> None:
        self.clock.move(duration_ms)
        self.timer.expire(self.clock.steady_ms())

    @property
    def last(self) -> AlterPartitionRequest:
        request = self.inter_broker_client.asked[-1].request
        assert isinstance(request, AlterPartitionRequest)
        return request

    @property
    def count(self) -> int:
        return len(self.inter_broker_client.asked)

    def answer(self, *results: PartitionResult, error: ErrorCode = ErrorCode.NONE) -> None:
        topics = (TopicResult(topic_id=TOPIC, partitions=results),)
        self.inter_broker_client.asked[-1].answer(
            AlterPartitionResponse(error_code=error, topics=topics)
        )


def granted(number: int, *isr: NodeId) -> PartitionResult:
    return PartitionResult(
        partition_index=number, leader_id=ONE, leader_epoch=4, isr=isr, partition_epoch=1
    )


def test_changes_of_one_turn_share_a_request_with_all_broker_epochs() -> None:
    lab, partitions = Lab(), [LeaderPartition(0), LeaderPartition(1)]
    for partition in partitions:
        lab.expand_isr(partition, TWO)
    assert lab.count == 0
    lab.pass_time()
    (question,) = lab.inter_broker_client.asked
    assert (question.node_id, question.purpose) == (8, Purpose.TO_CONTROLLER)
    assert (lab.last.broker_id, lab.last.broker_epoch) == (ONE, 99)
    (topic,) = lab.last.topics
    assert [each.partition_index for each in topic.partitions] == [0, 1]
    assert topic.partitions[0].new_isr_with_epochs == (
        BrokerState(broker_id=ONE, broker_epoch=99),
        BrokerState(broker_id=TWO, broker_epoch=72),
    )
    lab.answer(granted(0, ONE, TWO), granted(1, ONE, TWO))
    assert [partition.outcomes for partition in partitions] == [
        [ProposalOutcome.ACCEPTED],
        [ProposalOutcome.ACCEPTED],
    ]
    assert len(lab.alter_partition_manager) == 0


def test_one_request_is_in_flight_and_later_changes_wait_for_its_response() -> None:
    lab, one, two = Lab(), LeaderPartition(0), LeaderPartition(1)
    lab.expand_isr(one, TWO)
    lab.pass_time()
    lab.expand_isr(two, TWO)
    lab.pass_time()
    assert lab.count == 1
    lab.answer(granted(0, ONE, TWO))
    assert lab.count == 2
    assert [each.partition_index for each in lab.last.topics[0].partitions] == [1]


def test_an_unanswered_change_is_retried_at_the_current_controller() -> None:
    lab, partition = Lab(), LeaderPartition(0)
    lab.expand_isr(partition, TWO)
    lab.pass_time()
    lab.inter_broker_client.asked[-1].fail()
    lab.controller = NodeId(9)
    lab.pass_time(50)
    assert (lab.count, lab.inter_broker_client.asked[-1].node_id) == (2, 9)
    lab.answer(error=ErrorCode.NOT_CONTROLLER)
    lab.pass_time(50)
    assert lab.count == 3


def test_changes_wait_while_there_is_no_controller() -> None:
    lab, partition = Lab(), LeaderPartition(0)
    lab.controller = NO_CONTROLLER
    lab.expand_isr(partition, TWO)
    lab.pass_time()
    lab.pass_time(50)
    assert lab.count == 0
    lab.controller = NodeId(8)
    lab.pass_time(50)
    assert lab.count == 1


def test_a_change_that_metadata_made_obsolete_is_not_retried() -> None:
    lab, partition = Lab(), LeaderPartition(0)
    lab.expand_isr(partition, TWO)
    lab.pass_time()
    lab.inter_broker_client.asked[-1].fail()
    partition.in_sync.update((ONE, TWO), 1)
    lab.pass_time(50)
    assert (lab.count, len(lab.alter_partition_manager)) == (1, 0)


def test_a_partition_that_awaits_metadata_does_not_retry_but_a_missing_one_does() -> None:
    lab, outdated, ignored = Lab(), LeaderPartition(0), LeaderPartition(1)
    lab.expand_isr(outdated, TWO)
    lab.expand_isr(ignored, TWO)
    lab.pass_time()
    lab.answer(PartitionResult(partition_index=0, error_code=ErrorCode.INVALID_UPDATE_VERSION))
    assert (outdated.outcomes, ignored.outcomes) == (
        [ProposalOutcome.WAIT],
        [ProposalOutcome.RETRY],
    )
    lab.pass_time(50)
    assert [each.partition_index for each in lab.last.topics[0].partitions] == [1]


def test_nothing_is_sent_after_close() -> None:
    lab, partition = Lab(), LeaderPartition(0)
    lab.expand_isr(partition, TWO)
    lab.alter_partition_manager.close()
    lab.pass_time(1_000)
    assert lab.count == 0


def test_after_a_rejected_change_the_isr_is_checked_again_later() -> None:
    """ISR-5: the controller may not have processed a restarted follower's registration yet."""
    lab, refused, served = Lab(), LeaderPartition(0), LeaderPartition(1)
    for partition in (refused, served):
        lab.expand_isr(partition, TWO)
    lab.pass_time()
    lab.answer(
        PartitionResult(partition_index=0, error_code=ErrorCode.INELIGIBLE_REPLICA),
        granted(1, ONE, TWO),
    )
    lab.pass_time(499)
    assert (refused.looks, served.looks) == (0, 0)
    lab.pass_time(1)
    assert (refused.looks, served.looks) == (1, 0)
    lab.pass_time(5_000)
    assert refused.looks == 1
