"""Partitions by broker."""

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


def test_proposed_replicas_are_indexed_and_filtered_by_the_image() -> None:
    empty = cluster_of()
    replicas_by_broker = ReplicasByBroker(empty)
    replicas_by_broker.changed([TopicCreated(TOPIC)])
    assert replicas_by_broker.of(NodeId(1), empty) == []
    image = after(empty, TopicCreated(TOPIC))
    assert replicas_by_broker.of(NodeId(1), image) == names(0, 1)
    assert replicas_by_broker.of(NodeId(0), image) == names(0)
    assert replicas_by_broker.of(NodeId(7), image) == []
    assert ReplicasByBroker(image).of(NodeId(1), image) == names(0, 1)


def test_added_and_reassigned_partitions_are_indexed() -> None:
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


def test_a_new_topic_of_the_same_name_starts_empty() -> None:
    image = after(cluster_of(), TopicCreated(TOPIC))
    replicas_by_broker = ReplicasByBroker(image)
    small = replace(TOPIC, topic_id=TopicId(b"u" * 16), partitions=(new_partition([1]),))
    changes: list[MetadataChange] = [TopicDeleted("t"), TopicCreated(small)]
    replicas_by_broker.changed(changes)
    image = after(image, *changes)
    assert replicas_by_broker.of(NodeId(1), image) == names(0)
    assert replicas_by_broker.of(NodeId(0), image) == []
