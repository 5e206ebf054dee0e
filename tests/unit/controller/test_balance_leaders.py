"""When leadership returns to preferred replicas."""

from dataclasses import replace

from headwater.common.ids import NodeId, TopicId
from headwater.controller.elect_leaders import balance_leaders
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import (
    BrokerAdmitted,
    BrokerGone,
    BrokerStopping,
    MetadataChange,
    PartitionChanged,
    TopicCreated,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration, TopicImage
from tests.simulation.labs.cluster_lab import after, broker, cluster_of

ASTRAY = replace(new_partition([0, 1]), leader=NodeId(1), leader_epoch=3, partition_epoch=4)
BACK = replace(ASTRAY, leader=NodeId(0), leader_epoch=4, partition_epoch=5)
RIGHT = new_partition([0, 1])


def cluster(*partitions: PartitionRegistration) -> ClusterImage:
    brokers = [broker(0), broker(1)]
    admitted = [BrokerAdmitted(each.node_id, each.epoch) for each in brokers]
    topic = TopicImage(name="t", topic_id=TopicId(b"t" * 16), partitions=partitions)
    return after(cluster_of(*brokers), *admitted, TopicCreated(topic))


def balanced(image: ClusterImage, percentage: int = 10) -> list[MetadataChange]:
    return list(balance_leaders(image, percentage=percentage).changes)


def test_leadership_returns_when_the_imbalance_exceeds_the_percentage() -> None:
    """PL-1. The share is of the partitions that prefer the broker."""
    image = cluster(ASTRAY, *[RIGHT] * 8)
    assert balanced(image) == [PartitionChanged("t", 0, BACK)]
    assert balanced(cluster(ASTRAY, *[RIGHT] * 9)) == []
    assert balanced(image, percentage=12) == []


def test_only_an_eligible_broker_gets_its_partitions_back() -> None:
    image = cluster(ASTRAY)
    assert balanced(after(image, BrokerGone(NodeId(0)))) == []
    assert balanced(after(image, BrokerStopping(NodeId(0)))) == []
    assert balanced(after(image, BrokerAdmitted(NodeId(0), 7))) == []
    assert balanced(cluster(replace(ASTRAY, isr=(NodeId(1),)))) == []


def test_reassignments_and_deletions_are_skipped() -> None:
    assert balanced(cluster(replace(ASTRAY, adding=(NodeId(0),)))) == []
    assert balanced(after(cluster(ASTRAY), TopicDeletionBegun("t"))) == []
