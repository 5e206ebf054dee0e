"""AlterPartition: which ISR changes the controller accepts."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.controller.alter_partition import alter_partition
from headwater.metadata.changes import (
    BrokerAdmitted,
    BrokerStopping,
    PartitionChanged,
    TopicCreated,
)
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration, TopicImage
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionResult,
    TopicData,
)
from tests.simulation.labs.cluster_lab import after, broker, cluster_of

TOPIC_ID = TopicId(b"t" * 16)
LEADER = NodeId(0)


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


STATE = PartitionRegistration(
    replicas=nodes(0, 1, 2), isr=nodes(0, 1), leader=LEADER, leader_epoch=5, partition_epoch=9
)
GOOD = PartitionData(
    partition_index=0,
    leader_epoch=5,
    partition_epoch=9,
    new_isr_with_epochs=tuple(
        BrokerState(broker_id=each, broker_epoch=100 + each) for each in (0, 1, 2)
    ),
)


def cluster(state: PartitionRegistration = STATE) -> ClusterImage:
    brokers = [broker(number) for number in range(4)]
    admitted = [BrokerAdmitted(each.node_id, each.epoch) for each in brokers]
    topic = TopicImage(name="t", topic_id=TOPIC_ID, partitions=(state,))
    return after(cluster_of(*brokers), *admitted, TopicCreated(topic))


def members(*ids: int, epoch: int | None = None) -> tuple[BrokerState, ...]:
    return tuple(
        BrokerState(broker_id=each, broker_epoch=100 + each if epoch is None else epoch)
        for each in ids
    )


def ask(
    asked: PartitionData,
    image: ClusterImage | None = None,
    asker: int = 0,
    topic_id: TopicId = TOPIC_ID,
) -> tuple[PartitionResult, list[PartitionRegistration]]:
    request = AlterPartitionRequest(
        broker_id=asker,
        broker_epoch=100 + asker,
        topics=(TopicData(topic_id=topic_id, partitions=(asked,)),),
    )
    decision = alter_partition(image or cluster(), request)
    assert decision.answer.error_code is ErrorCode.NONE
    ((result,),) = [topic.partitions for topic in decision.answer.topics]
    states = [
        change.partition for change in decision.changes if isinstance(change, PartitionChanged)
    ]
    assert len(states) == len(decision.changes)
    return result, states


def test_an_isr_change_raises_the_partition_epoch_only() -> None:
    """ISR-6."""
    for isr in ((0, 1, 2), (0,), (2, 0)):
        result, states = ask(replace(GOOD, new_isr_with_epochs=members(*isr)))
        assert states == [replace(STATE, isr=nodes(*isr), partition_epoch=10)]
        assert result == PartitionResult(leader_id=0, leader_epoch=5, isr=isr, partition_epoch=10)


def test_a_proposal_of_the_current_isr_changes_nothing() -> None:
    result, states = ask(replace(GOOD, new_isr_with_epochs=members(0, 1)))
    assert states == []
    assert result == PartitionResult(leader_id=0, leader_epoch=5, isr=(0, 1), partition_epoch=9)


@pytest.mark.parametrize(
    ("asked", "asker", "code"),
    [
        (replace(GOOD, leader_epoch=6), 0, ErrorCode.NOT_CONTROLLER),
        (replace(GOOD, partition_epoch=10), 0, ErrorCode.NOT_CONTROLLER),
        (replace(GOOD, partition_epoch=10, leader_epoch=4), 1, ErrorCode.NOT_CONTROLLER),
        (replace(GOOD, leader_epoch=4, partition_epoch=8), 1, ErrorCode.FENCED_LEADER_EPOCH),
        (replace(GOOD, partition_epoch=8), 1, ErrorCode.INVALID_REQUEST),
        (
            replace(GOOD, partition_epoch=8, new_isr_with_epochs=members(7)),
            0,
            ErrorCode.INVALID_UPDATE_VERSION,
        ),
        (replace(GOOD, new_isr_with_epochs=members(0, 3)), 0, ErrorCode.INVALID_REQUEST),
        (replace(GOOD, new_isr_with_epochs=members(1, 2)), 0, ErrorCode.INVALID_REQUEST),
        (replace(GOOD, new_isr_with_epochs=members(0, 1, 1)), 0, ErrorCode.INVALID_REQUEST),
        (replace(GOOD, new_isr_with_epochs=()), 0, ErrorCode.INVALID_REQUEST),
        (replace(GOOD, partition_index=1), 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            replace(GOOD, new_isr_with_epochs=(*members(0), *members(2, epoch=99))),
            0,
            ErrorCode.INELIGIBLE_REPLICA,
        ),
    ],
)
def test_an_outdated_or_wrong_leader_gets_the_first_applicable_error(
    asked: PartitionData, asker: int, code: ErrorCode
) -> None:
    """ISR-6: the order of the checks matters."""
    result, states = ask(asked, asker=asker)
    assert states == []
    assert result == PartitionResult(partition_index=asked.partition_index, error_code=code)


def test_members_without_broker_epochs_are_accepted() -> None:
    """ISR-3."""
    _, states = ask(replace(GOOD, new_isr_with_epochs=members(0, 2, epoch=-1)))
    assert states == [replace(STATE, isr=nodes(0, 2), partition_epoch=10)]


def test_stopping_and_unadmitted_brokers_are_not_eligible() -> None:
    """CS-1, ISR-3; but a stopping leader stays if no other replica can lead."""
    stopping = after(cluster(), BrokerStopping(NodeId(2)))
    assert ask(GOOD, stopping)[0].error_code is ErrorCode.INELIGIBLE_REPLICA
    unadmitted = after(cluster(), BrokerAdmitted(NodeId(2), 7))
    assert ask(GOOD, unadmitted)[0].error_code is ErrorCode.INELIGIBLE_REPLICA
    leaving = after(cluster(), BrokerStopping(LEADER))
    alone = replace(GOOD, new_isr_with_epochs=members(0))
    assert ask(alone, leaving)[1] == [replace(STATE, isr=nodes(0), partition_epoch=10)]


def test_unknown_topics_and_stale_broker_epochs_are_rejected() -> None:
    """FEN-1."""
    result, _ = ask(GOOD, topic_id=TopicId(b"x" * 16))
    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_ID
    for request in (
        AlterPartitionRequest(broker_id=0, broker_epoch=99),
        AlterPartitionRequest(broker_id=8, broker_epoch=108),
    ):
        decision = alter_partition(cluster(), request)
        expected = AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        assert (decision.changes, decision.answer) == ((), expected)


def test_the_last_target_in_the_isr_completes_the_reassignment() -> None:
    """RA-1, ISR-5: the new leader epoch is reported as an error."""
    moving = replace(STATE, replicas=nodes(2, 1, 0), adding=nodes(2), removing=nodes(0))
    result, states = ask(GOOD, cluster(moving))
    assert states == [
        PartitionRegistration(
            replicas=nodes(2, 1),
            isr=nodes(1, 2),
            leader=NodeId(2),
            leader_epoch=6,
            partition_epoch=10,
        )
    ]
    assert result.error_code is ErrorCode.NEW_LEADER_ELECTED
    growing = replace(STATE, adding=nodes(2))
    result, states = ask(GOOD, cluster(growing))
    assert states == [replace(STATE, isr=nodes(0, 1, 2), partition_epoch=10)]
    assert result.error_code is ErrorCode.NONE
