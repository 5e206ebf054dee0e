"""What a broker holds."""

from dataclasses import replace

from headwater.cluster.facts import (
    Fact,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headwater.cluster.holdings import Holdings
from headwater.cluster.image import Topic
from headwater.cluster.topic_creation import new_partition
from headwater.model.ids import NodeId, TopicId, TopicPartition
from tests.sim.cluster_lab import after, cluster_of

TOPIC = Topic(
    name="t",
    topic_id=TopicId(b"t" * 16),
    partitions=(new_partition([0, 1]), new_partition([1])),
)


def names(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in numbers]


def test_what_is_proposed_is_held_and_what_an_image_lacks_is_not() -> None:
    empty = cluster_of()
    holdings = Holdings(empty)
    holdings.changed([TopicCreated(TOPIC)])
    assert holdings.of(NodeId(1), empty) == []
    image = after(empty, TopicCreated(TOPIC))
    assert holdings.of(NodeId(1), image) == names(0, 1)
    assert holdings.of(NodeId(0), image) == names(0)
    assert holdings.of(NodeId(7), image) == []
    assert Holdings(image).of(NodeId(1), image) == names(0, 1)


def test_partitions_that_are_added_or_move_are_held_where_they_go() -> None:
    image = after(cluster_of(), TopicCreated(TOPIC))
    holdings = Holdings(image)
    moved = replace(new_partition([2]), partition_epoch=1)
    facts: list[Fact] = [
        PartitionsAdded("t", (new_partition([2]),)),
        PartitionsAdded("t", (new_partition([2, 0]),)),
        PartitionChanged("t", 1, moved),
    ]
    holdings.changed(facts)
    image = after(image, *facts)
    assert holdings.of(NodeId(2), image) == names(2, 3, 1)
    assert holdings.of(NodeId(1), image) == names(0)
    assert holdings.of(NodeId(0), image) == names(0, 3)


def test_a_namesake_begins_anew() -> None:
    image = after(cluster_of(), TopicCreated(TOPIC))
    holdings = Holdings(image)
    small = replace(TOPIC, topic_id=TopicId(b"u" * 16), partitions=(new_partition([1]),))
    facts: list[Fact] = [TopicDeleted("t"), TopicCreated(small)]
    holdings.changed(facts)
    image = after(image, *facts)
    assert holdings.of(NodeId(1), image) == names(0)
    assert holdings.of(NodeId(0), image) == []
