"""ElectLeaders, reassignments and producer ids."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.elect_leaders import PREFERRED, UNCLEAN, elect_leaders
from headwater.controller.partition_reassignment import (
    alter_reassignments,
    completed,
    list_reassignments,
)
from headwater.controller.producer_id_control import allocate_producer_ids
from headwater.metadata.changes import (
    PartitionChanged,
    ProducerIdsAllocated,
    ReplicasOffline,
    TopicCreated,
)
from headwater.metadata.cluster_image import (
    NO_LEADER,
    ClusterImage,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.simulation.labs.cluster_lab import after, broker, cluster_of


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    epochs: tuple[int, int] = (0, 0),
    moves: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=nodes(*replicas),
        isr=nodes(*isr),
        leader=NodeId(leader),
        leader_epoch=epochs[0],
        partition_epoch=epochs[1],
        adding=nodes(*moves[0]),
        removing=nodes(*moves[1]),
    )


def with_partitions(*partitions: PartitionRegistration) -> ClusterImage:
    """Brokers 0 to 3 are live, 9 is not."""
    topic = TopicImage(name="t", topic_id=TopicId(b"\x01" * 16), partitions=partitions)
    return after(cluster_of(*map(broker, range(4))), TopicCreated(topic))


def elect(
    image: ClusterImage, election_type: int, *numbers: int
) -> tuple[list[PartitionChanged], list[ErrorCode]]:
    asked = (TopicPartitions(topic="t", partitions=numbers),) if numbers else None
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=asked)
    decision = elect_leaders(image, request)
    codes = [each.error_code for topic in decision.answer for each in topic.partition_result]
    return [change for change in decision.changes if isinstance(change, PartitionChanged)], codes


def test_the_preferred_replica_is_elected_if_it_is_eligible() -> None:
    """PL-1."""
    image = with_partitions(
        partition((0, 1), (1, 0), 1), partition((0, 1), (0, 1), 0),
        partition((0, 1), (1,), 1), partition((9, 1), (1, 9), 1),
    )  # fmt: skip
    changes, codes = elect(image, PREFERRED, 0, 1, 2, 3, 4)
    assert changes == [PartitionChanged("t", 0, partition((0, 1), (1, 0), 0, (1, 1)))]
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert elect(image, PREFERRED) == (changes, [codes[0], codes[2], codes[3]])


def test_the_preferred_replica_is_not_elected_if_its_disk_failed() -> None:
    """PL-1: the last ISR member stays in the ISR but cannot serve."""
    image = with_partitions(partition((0, 1), (0,), NO_LEADER))
    image = after(image, ReplicasOffline(NodeId(0), frozenset({TopicPartition("t", 0)})))
    assert elect(image, PREFERRED, 0) == ([], [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE])


def test_an_unclean_election_takes_any_live_replica() -> None:
    """PL-1."""
    image = with_partitions(
        partition((0, 1), (0,), 0), partition((9, 1), (9,), NO_LEADER),
        partition((9, 1), (9, 1), NO_LEADER), partition((9,), (9,), NO_LEADER),
    )  # fmt: skip
    changes, codes = elect(image, UNCLEAN, 0, 1, 2, 3)
    assert changes == [
        PartitionChanged("t", 1, partition((9, 1), (1,), 1, (1, 1))),
        PartitionChanged("t", 2, partition((9, 1), (9, 1), 1, (1, 1))),
    ]
    assert codes == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ]


def test_an_unknown_election_type_is_rejected() -> None:
    image = with_partitions(partition((0,), (0,), 0))
    assert elect(image, 2, 0) == ([], [ErrorCode.INVALID_REQUEST])


def reassign(
    before: PartitionRegistration, target: tuple[int, ...] | None, *, may_resize: bool = True
) -> PartitionRegistration | ErrorCode | None:
    """The partition afterwards, None if unchanged, or the error."""
    asked = ReassignablePartition(partition_index=0, replicas=target)
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name="t", partitions=(asked,)),),
        allow_replication_factor_change=may_resize,
    )
    decision = alter_reassignments(with_partitions(before), request)
    code = decision.answer[0].partitions[0].error_code
    if code is not ErrorCode.NONE:
        assert not decision.changes
        return code
    updates = [
        change.partition for change in decision.changes if isinstance(change, PartitionChanged)
    ]
    return updates[0] if updates else None


SETTLED = partition((0, 1), (0, 1), 0)
MOVING = partition((2, 1, 0), (0, 1), 0, (0, 1), ((2,), (0,)))


def test_a_reassignment_adds_the_new_replicas_before_removing_the_old_ones() -> None:
    """RA-1."""
    assert reassign(SETTLED, (2, 1)) == MOVING
    assert completed(MOVING) is None
    caught_up = partition((2, 1, 0), (0, 1, 2), 0, (0, 2), ((2,), (0,)))
    assert completed(caught_up) == partition((2, 1), (1, 2), 2, (1, 3))


def test_a_reassignment_can_be_changed_and_cancelled() -> None:
    """RA-1."""
    turned = partition((3, 1, 0), (0, 1), 0, (0, 2), ((3,), (0,)))
    assert reassign(MOVING, (3, 1)) == turned
    assert reassign(MOVING, None) == partition((1, 0), (0, 1), 0, (1, 2))
    assert reassign(SETTLED, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_ending_or_cancelling_a_reassignment_elects_no_leader_if_there_is_none() -> None:
    """RA-1: its ISR members are dead; one of them leads when it returns, not before."""
    moving = partition((2, 1, 0), (1,), NO_LEADER, (3, 4), ((2,), (0,)))
    assert reassign(moving, None) == partition((1, 0), (1,), NO_LEADER, (4, 5))
    left = partition((1, 0), (1,), NO_LEADER, (3, 4))
    assert reassign(left, (1,)) == partition((1,), (1,), NO_LEADER, (4, 5))


def test_a_reassignment_to_the_current_isr_completes_at_once() -> None:
    """RA-1: on a standalone broker there is no other kind."""
    assert reassign(SETTLED, (0, 1)) is None
    assert reassign(SETTLED, (0,)) == partition((0,), (0,), 0, (1, 1))
    assert reassign(SETTLED, (1, 0)) == partition((1, 0), (0, 1), 0, (0, 1))


@pytest.mark.parametrize("target", [(), (0, 0), (0, 9)])
def test_an_invalid_target_is_rejected(target: tuple[int, ...]) -> None:
    """RA-1."""
    assert reassign(SETTLED, target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_request_may_forbid_changing_the_replication_factor() -> None:
    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(SETTLED, (0, 1, 2), may_resize=False) is refused


def test_ongoing_reassignments_are_listed() -> None:
    """RA-1."""
    image = with_partitions(SETTLED, MOVING)
    expected = (
        OngoingTopicReassignment(
            name="t",
            partitions=(
                OngoingPartitionReassignment(
                    partition_index=1,
                    replicas=(2, 1, 0),
                    adding_replicas=(2,),
                    removing_replicas=(0,),
                ),
            ),
        ),
    )
    assert list_reassignments(image, ListPartitionReassignmentsRequest()) == expected
    assert list_reassignments(image, ListPartitionReassignmentsRequest(topics=())) == ()


def test_producer_id_blocks_do_not_overlap() -> None:
    image = cluster_of(broker(0))
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=100)
    first = allocate_producer_ids(image, request)
    assert first == ControllerResult(
        (ProducerIdsAllocated(1_000),),
        AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1_000),
    )
    second = allocate_producer_ids(after(image, *first.changes), request)
    assert second.answer.producer_id_start == 1_000
    stale = AllocateProducerIdsRequest(broker_id=0, broker_epoch=99)
    unregistered = AllocateProducerIdsRequest(broker_id=5, broker_epoch=1)
    for asked, code in [
        (stale, ErrorCode.STALE_BROKER_EPOCH),
        (unregistered, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ]:
        refused = ControllerResult((), AllocateProducerIdsResponse(error_code=code))
        assert allocate_producer_ids(image, asked) == refused
