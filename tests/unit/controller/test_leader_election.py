"""Leaders and ISRs when brokers register, die, restart or shut down."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.leader_election import elect_and_shrink
from headwater.metadata.changes import (
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    PartitionChanged,
    ReplicasOffline,
    TopicCreated,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import (
    NO_LEADER,
    ClusterImage,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata.controller_result import ControllerResult
from tests.simulation.labs.cluster_lab import after, broker, cluster_of

NAME = TopicPartition("t", 0)


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def partition(
    replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, epochs: tuple[int, int] = (5, 9)
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=nodes(*replicas),
        isr=nodes(*isr),
        leader=NodeId(leader),
        leader_epoch=epochs[0],
        partition_epoch=epochs[1],
    )


def cluster(state: PartitionRegistration) -> ClusterImage:
    """Brokers 0 to 3 are live and admitted."""
    brokers = [broker(number) for number in range(4)]
    admitted = [BrokerAdmitted(each.node_id, each.epoch) for each in brokers]
    topic = TopicImage(name="t", topic_id=TopicId(b"t" * 16), partitions=(state,))
    return after(cluster_of(*brokers), *admitted, TopicCreated(topic))


def without(image: ClusterImage, *gone: int) -> ClusterImage:
    return after(image, *(BrokerGone(NodeId(each)) for each in gone))


def returned(image: ClusterImage, *back: int) -> ClusterImage:
    """Registered again and not yet admitted by a controller."""
    brokers = (replace(broker(each), epoch=broker(each).epoch + 1000) for each in back)
    return after(image, *map(BrokerRegistered, brokers))


def settled(
    image: ClusterImage, *, unclean: bool = False, admit: Sequence[int] = ()
) -> ControllerResult[None]:
    return elect_and_shrink(
        image, [NAME], may_be_unclean=lambda _: unclean, admit=[NodeId(each) for each in admit]
    )


def changed(state: PartitionRegistration) -> ControllerResult[None]:
    return ControllerResult([PartitionChanged("t", 0, state)], None)


NOTHING: ControllerResult[None] = ControllerResult([], None)
STATE = partition((0, 1, 2), (1, 0, 2), 0)


def test_a_correct_partition_is_not_changed() -> None:
    assert settled(cluster(STATE)) == NOTHING
    assert settled(without(cluster(STATE), 3)) == NOTHING


def test_a_dead_leader_is_replaced_by_the_first_replica_in_the_isr() -> None:
    """PL-2: in replica order, not in ISR order."""
    assert settled(without(cluster(STATE), 0)) == changed(partition((0, 1, 2), (1, 2), 1, (6, 10)))
    behind = partition((0, 1, 2), (0, 2), 0)
    assert settled(without(cluster(behind), 0)) == changed(partition((0, 1, 2), (2,), 2, (6, 10)))


def test_a_dead_follower_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    """ISR-6: a smaller ISR is no new leader epoch."""
    assert settled(without(cluster(STATE), 2)) == changed(partition((0, 1, 2), (1, 0), 0, (5, 10)))


def test_the_isr_stays_when_all_its_members_are_dead() -> None:
    """ISR-7: each of them has all acknowledged records."""
    image = without(cluster(partition((0, 1, 2), (1, 0), 0)), 0, 1)
    leaderless = partition((0, 1, 2), (1, 0), NO_LEADER, (6, 10))
    assert settled(image) == changed(leaderless)
    image = after(image, *settled(image).changes)
    assert settled(image) == NOTHING
    image = returned(image, 1)
    back = partition((0, 1, 2), (1,), 1, (7, 11))
    assert settled(image, admit=[1]) == ControllerResult(
        [PartitionChanged("t", 0, back), BrokerAdmitted(NodeId(1), 1101)], None
    )


def test_a_replica_outside_the_isr_leads_only_if_the_topic_allows_it() -> None:
    """PL-2: records that only the others had are lost."""
    image = without(cluster(partition((0, 1, 2), (0,), 0)), 0)
    assert settled(image) == changed(partition((0, 1, 2), (0,), NO_LEADER, (6, 10)))
    assert settled(image, unclean=True) == changed(partition((0, 1, 2), (1,), 1, (6, 10)))
    all_dead = without(image, 1, 2)
    expected = changed(partition((0, 1, 2), (0,), NO_LEADER, (6, 10)))
    assert settled(all_dead, unclean=True) == expected


def test_a_restarted_broker_stays_in_the_isr_only_where_no_other_member_is_left() -> None:
    """It may have lost acknowledged records, although its session looks unbroken."""
    image = returned(cluster(STATE), 0)
    assert settled(image, admit=[0]) == ControllerResult(
        [
            PartitionChanged("t", 0, partition((0, 1, 2), (1, 2), 1, (6, 10))),
            BrokerAdmitted(NodeId(0), 1100),
        ],
        None,
    )
    alone = returned(cluster(partition((0, 1, 2), (0,), 0)), 0)
    assert settled(alone).changes == [
        PartitionChanged("t", 0, partition((0, 1, 2), (0,), 0, (6, 10)))
    ]


def test_of_several_restarted_members_only_one_stays_in_the_isr() -> None:
    image = returned(cluster(STATE), 0, 1, 2)
    assert settled(image) == changed(partition((0, 1, 2), (0,), 0, (6, 10)))


def test_an_admitted_broker_is_not_admitted_again() -> None:
    image = returned(cluster(STATE), 0)
    image = after(image, *settled(image, admit=[0, 1, 9]).changes)
    assert settled(image, admit=[0, 1, 9]) == NOTHING


def test_a_stopping_broker_gives_up_leadership_if_another_can_lead() -> None:
    """CS-1."""
    image = after(cluster(STATE), BrokerStopping(NodeId(0)))
    assert settled(image) == changed(partition((0, 1, 2), (1, 2), 1, (6, 10)))
    image = after(cluster(STATE), BrokerStopping(NodeId(2)))
    assert settled(image) == changed(partition((0, 1, 2), (1, 0), 0, (5, 10)))
    image = without(after(cluster(STATE), BrokerStopping(NodeId(0))), 1, 2)
    assert settled(image) == changed(partition((0, 1, 2), (0,), 0, (5, 10)))


def test_a_replica_on_a_failed_log_directory_counts_as_dead() -> None:
    image = after(cluster(STATE), ReplicasOffline(NodeId(0), frozenset({NAME})))
    assert settled(image) == changed(partition((0, 1, 2), (1, 2), 1, (6, 10)))
    other = TopicPartition("t", 1)
    image = after(cluster(STATE), ReplicasOffline(NodeId(0), frozenset({other})))
    assert settled(image) == NOTHING


def test_a_reassignment_with_all_targets_in_the_isr_completes_in_one_change() -> None:
    """RA-1: a former controller may have died before it could."""
    moving = replace(partition((2, 1, 0), (0, 1, 2), 0), adding=nodes(2), removing=nodes(0))
    assert settled(cluster(moving)) == changed(partition((2, 1), (1, 2), 2, (6, 10)))
    image = without(cluster(moving), 2)
    expected = replace(moving, isr=nodes(1), replicas=nodes(2, 1), leader=NodeId(1))
    outcome = settled(image)
    (change,) = outcome.changes
    assert isinstance(change, PartitionChanged)
    assert (change.partition.partition_epoch, change.partition.isr) == (10, expected.isr)
    assert change.partition.leader == 1


@pytest.mark.parametrize("name", [TopicPartition("t", 7), TopicPartition("gone", 0), NAME])
def test_deleted_topics_and_topics_being_deleted_are_skipped(name: TopicPartition) -> None:
    image = without(after(cluster(STATE), TopicDeletionBegun("t")), 0)
    assert elect_and_shrink(image, [name], may_be_unclean=lambda _: True) == NOTHING
