"""What a broker holds."""

from dataclasses import replace

from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.replicas_by_broker import ReplicasByBroker
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import (
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headwater.metadata.cluster_image import TopicImage
from tests.simulation.labs.cluster_lab import after, cluster_of

TOPIC = TopicImage(
    name="t",
    topic_id=TopicId(b"t" * 16),
    partitions=(new_partition([0, 1]), new_partition([1])),
)


def names(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in numbers]


def test_what_is_proposed_is_held_and_what_an_image_lacks_is_not() -> None:
    empty = cluster_of()
    replicas_by_broker = ReplicasByBroker(empty)
    replicas_by_broker.changed([TopicCreated(TOPIC)])
    assert replicas_by_broker.of(NodeId(1), empty) == []
    image = after(empty, TopicCreated(TOPIC))
    assert replicas_by_broker.of(NodeId(1), image) == names(0, 1)
    assert replicas_by_broker.of(NodeId(0), image) == names(0)
    assert replicas_by_broker.of(NodeId(7), image) == []
    assert ReplicasByBroker(image).of(NodeId(1), image) == names(0, 1)


def test_partitions_that_are_added_or_move_are_held_where_they_go() -> None:
    image = after(cluster_of(), TopicCreated(TOPIC))
    replicas_by_broker = ReplicasByBroker(image)
    moved = replace(new_partition([2]), partition_epoch=1)
    changes: list[MetadataChange] = [
        PartitionsAdded("t", (new_partition([2]),)),
        PartitionsAdded("t", (new_partition([2, 0]),)),
        PartitionChanged("t", 1, moved),
    ]
    replicas_by_broker.changed(changes)
    image = after(image, *changes)
    assert replicas_by_broker.of(NodeId(2), image) == names(2, 3, 1)
    assert replicas_by_broker.of(NodeId(1), image) == names(0)
    assert replicas_by_broker.of(NodeId(0), image) == names(0, 3)


def test_a_namesake_begins_anew() -> None:
    image = after(cluster_of(), TopicCreated(TOPIC))
    replicas_by_broker = ReplicasByBroker(image)
    small = replace(TOPIC, topic_id=TopicId(b"u" * 16), partitions=(new_partition([1]),))
    changes: list[MetadataChange] = [TopicDeleted("t"), TopicCreated(small)]
    replicas_by_broker.changed(changes)
    image = after(image, *changes)
    assert replicas_by_broker.of(NodeId(1), image) == names(0)
    assert replicas_by_broker.of(NodeId(0), image) == []
