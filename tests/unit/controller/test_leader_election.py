"""Who leads and who is in sync, when brokers come, go, come again, or are about to stop."""

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
    """Brokers 0 to 3 are up and admitted."""
    brokers = [broker(number) for number in range(4)]
    admitted = [BrokerAdmitted(each.node_id, each.epoch) for each in brokers]
    topic = TopicImage(name="t", topic_id=TopicId(b"t" * 16), partitions=(state,))
    return after(cluster_of(*brokers), *admitted, TopicCreated(topic))


def without(image: ClusterImage, *gone: int) -> ClusterImage:
    return after(image, *(BrokerGone(NodeId(each)) for each in gone))


def returned(image: ClusterImage, *back: int) -> ClusterImage:
    """Registered anew, of which no controller has heard yet."""
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


def test_what_is_right_stays_as_it_is() -> None:
    assert settled(cluster(STATE)) == NOTHING
    assert settled(without(cluster(STATE), 3)) == NOTHING


def test_a_dead_leader_is_followed_by_the_first_replica_that_is_in_sync() -> None:
    """PL-2: in the order of replicas, and not of the in-sync list."""
    assert settled(without(cluster(STATE), 0)) == changed(partition((0, 1, 2), (1, 2), 1, (6, 10)))
    behind = partition((0, 1, 2), (0, 2), 0)
    assert settled(without(cluster(behind), 0)) == changed(partition((0, 1, 2), (2,), 2, (6, 10)))


def test_a_dead_follower_leaves_the_in_sync_replicas_and_the_term_goes_on() -> None:
    """ISR-6: an in-sync replica less is no new leader epoch."""
    assert settled(without(cluster(STATE), 2)) == changed(partition((0, 1, 2), (1, 0), 0, (5, 10)))


def test_the_last_in_sync_replicas_stay_when_all_of_them_are_dead() -> None:
    """ISR-7: any of them has all that was acknowledged."""
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


def test_who_is_not_in_sync_leads_only_where_the_topic_allows_it() -> None:
    """PL-2: whatever only the others had is lost."""
    image = without(cluster(partition((0, 1, 2), (0,), 0)), 0)
    assert settled(image) == changed(partition((0, 1, 2), (0,), NO_LEADER, (6, 10)))
    assert settled(image, unclean=True) == changed(partition((0, 1, 2), (1,), 1, (6, 10)))
    nobody = without(image, 1, 2)
    expected = changed(partition((0, 1, 2), (0,), NO_LEADER, (6, 10)))
    assert settled(nobody, unclean=True) == expected


def test_a_broker_that_came_again_unseen_is_in_sync_only_where_nobody_else_is() -> None:
    """It may have lost what it had acknowledged, though its session looks unbroken."""
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


def test_of_several_that_came_again_one_is_the_measure() -> None:
    image = returned(cluster(STATE), 0, 1, 2)
    assert settled(image) == changed(partition((0, 1, 2), (0,), 0, (6, 10)))


def test_an_admitted_broker_is_not_admitted_again() -> None:
    image = returned(cluster(STATE), 0)
    image = after(image, *settled(image, admit=[0, 1, 9]).changes)
    assert settled(image, admit=[0, 1, 9]) == NOTHING


def test_who_is_about_to_stop_hands_over_where_somebody_can_take_it() -> None:
    """CS-1."""
    image = after(cluster(STATE), BrokerStopping(NodeId(0)))
    assert settled(image) == changed(partition((0, 1, 2), (1, 2), 1, (6, 10)))
    image = after(cluster(STATE), BrokerStopping(NodeId(2)))
    assert settled(image) == changed(partition((0, 1, 2), (1, 0), 0, (5, 10)))
    image = without(after(cluster(STATE), BrokerStopping(NodeId(0))), 1, 2)
    assert settled(image) == changed(partition((0, 1, 2), (0,), 0, (5, 10)))


def test_a_replica_on_a_failed_log_directory_is_as_good_as_dead() -> None:
    image = after(cluster(STATE), ReplicasOffline(NodeId(0), frozenset({NAME})))
    assert settled(image) == changed(partition((0, 1, 2), (1, 2), 1, (6, 10)))
    other = TopicPartition("t", 1)
    image = after(cluster(STATE), ReplicasOffline(NodeId(0), frozenset({other})))
    assert settled(image) == NOTHING


def test_a_move_whose_targets_are_in_sync_is_ended_in_one_change() -> None:
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
def test_what_is_gone_or_going_is_left_alone(name: TopicPartition) -> None:
    image = without(after(cluster(STATE), TopicDeletionBegun("t")), 0)
    assert elect_and_shrink(image, [name], may_be_unclean=lambda _: True) == NOTHING
