"""Partition and replica states: valid transitions, and which changes the controller validates."""

import pytest

from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.partition_state_machine import (
    PARTITION_TRANSITIONS,
    InvalidTransition,
    PartitionState,
    invalid_transitions,
    is_valid_transition,
)
from headwater.controller.replica_state_machine import REPLICA_TRANSITIONS, ReplicaState
from headwater.metadata.changes import (
    BrokerGone,
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
    apply,
)
from headwater.metadata.cluster_image import NO_LEADER, PartitionRegistration
from tests.simulation.labs.cluster_lab import broker, cluster_of
from tests.unit.controller.test_topic_deletion import TOPIC

ONE = NodeId(1)
LED = PartitionRegistration(replicas=(ONE,), isr=(ONE,), leader=ONE)
LEADERLESS = PartitionRegistration(replicas=(ONE,), isr=(ONE,), leader=NO_LEADER)


def test_the_tables_have_every_state_and_no_final_one() -> None:
    for states, transitions in (
        (PartitionState, PARTITION_TRANSITIONS),
        (ReplicaState, REPLICA_TRANSITIONS),
    ):
        assert list(transitions) == list(states)
        assert all(transitions.values())


def test_a_partition_is_created_online_or_offline_by_way_of_new() -> None:
    created = [
        state for state in PartitionState if is_valid_transition(PartitionState.NON_EXISTENT, state)
    ]
    assert created == [PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE]


@pytest.mark.parametrize(
    "changes",
    [
        [TopicCreated(TOPIC)],
        [TopicCreated(TOPIC), PartitionsAdded("t", (LED,))],
        [TopicCreated(TOPIC), PartitionChanged("t", 0, LEADERLESS)],
        [TopicCreated(TOPIC), BrokerGone(ONE), PartitionChanged("t", 0, LEADERLESS)],
        [TopicCreated(TOPIC), TopicDeletionBegun("t"), TopicDeleted("t")],
    ],
)
def test_the_life_of_a_partition_has_only_valid_transitions(
    changes: list[MetadataChange],
) -> None:
    image = cluster_of(broker(0), broker(1))
    for change in changes:
        after = apply(image, [change], image.version)
        assert list(invalid_transitions(image, after, [change])) == []
        image = after


def test_a_topic_that_is_deleted_while_its_partitions_are_online_is_reported() -> None:
    image = cluster_of(broker(0), broker(1))
    image = apply(image, [TopicCreated(TOPIC)], image.version)
    change = TopicDeleted("t")
    after = apply(image, [change], image.version)
    assert list(invalid_transitions(image, after, [change])) == [
        InvalidTransition(
            TopicPartition("t", number), PartitionState.ONLINE, PartitionState.NON_EXISTENT
        )
        for number in range(len(TOPIC.partitions))
    ]
