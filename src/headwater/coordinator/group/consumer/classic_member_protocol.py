"""Subscriptions and assignments of classic-protocol members in a consumer group.

The format is that of `consumer_protocol`. In a consumer group the broker assigns, so it reads
subscriptions and writes assignments, and maps topic names to ids and back.
"""

from headwater.coordinator.assignors.assignor_spec import Partitions, TopicIdPartition
from headwater.coordinator.group.consumer.consumer_group_record_values import by_topic
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol import consumer_protocol as wire
from headwater.protocol.consumer_protocol import (
    ConsumerAssignment,
    NamedPartitions,
    Subscription,
    read_assignment,
    read_subscription,
    version_of,
)

__all__ = [
    "ConsumerAssignment",
    "NamedPartitions",
    "Subscription",
    "ids_of",
    "read_assignment",
    "read_subscription",
    "version_of",
    "write_assignment",
]


def write_assignment(partitions: Partitions, version: int, image: ClusterImage) -> bytes:
    """Write an assignment by topic name; deleted topics are left out."""
    named = []
    for each in by_topic(partitions):
        topic = image.topic_by_id(each.topic_id)
        if topic is not None:
            named.append(NamedPartitions(topic=topic.name, partitions=each.partitions))
    assignment = ConsumerAssignment(assigned_partitions=tuple(named))
    return wire.write_assignment(assignment, version)


def ids_of(named: tuple[NamedPartitions, ...], image: ClusterImage) -> Partitions:
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for each in named
        if (topic := image.topics.get(each.topic)) is not None
        for partition in each.partitions
    )
