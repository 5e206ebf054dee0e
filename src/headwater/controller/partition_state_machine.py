"""Partition states and their valid transitions: Kafka's PartitionStateMachine.

Unlike Kafka's, this one stores no states: `partition_state` derives them from the cluster image.
The controller validates each change that it has written and logs an invalid transition as an
error, as Kafka does.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from headwater.common.ids import TopicPartition
from headwater.metadata.changes import (
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import ClusterImage


class PartitionState(Enum):
    NON_EXISTENT = auto()
    # Decided but not written yet.
    NEW = auto()
    ONLINE = auto()
    # No live leader, or its topic is being deleted.
    OFFLINE = auto()


PARTITION_TRANSITIONS: Final[Mapping[PartitionState, tuple[PartitionState, ...]]] = {
    PartitionState.NON_EXISTENT: (PartitionState.NEW,),
    PartitionState.NEW: (PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.ONLINE: (PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.OFFLINE: (
        PartitionState.ONLINE,
        PartitionState.OFFLINE,
        PartitionState.NON_EXISTENT,
    ),
}


class InvalidTransition(NamedTuple):
    name: TopicPartition
    source: PartitionState
    target: PartitionState


def partition_state(image: ClusterImage, name: TopicPartition) -> PartitionState:
    """Return a partition's state in an image; never NEW, as it is not in it yet."""
    partition = image.partition(*name)
    if partition is None:
        return PartitionState.NON_EXISTENT
    if image.topics[name.topic].is_deleting or partition.leader not in image.brokers:
        return PartitionState.OFFLINE
    return PartitionState.ONLINE


def invalid_transitions(
    before: ClusterImage, after: ClusterImage, changes: Sequence[MetadataChange]
) -> Iterator[InvalidTransition]:
    """Yield the invalid transitions among the partitions that `changes` are about."""
    for name in _changed_partitions(before, after, changes):
        source, target = partition_state(before, name), partition_state(after, name)
        if not is_valid_transition(source, target):
            yield InvalidTransition(name, source, target)


def is_valid_transition(source: PartitionState, target: PartitionState) -> bool:
    """Return whether the table has the transition; creation goes through NEW."""
    if source is PartitionState.NON_EXISTENT and target is not PartitionState.NEW:
        source = PartitionState.NEW
    return target in PARTITION_TRANSITIONS[source]


def _changed_partitions(
    before: ClusterImage, after: ClusterImage, changes: Sequence[MetadataChange]
) -> Iterator[TopicPartition]:
    for change in changes:
        match change:
            case TopicCreated(topic):
                yield from _all(after, topic.name)
            case PartitionsAdded(name, _) | TopicDeletionBegun(name):
                yield from _all(after, name)
            case TopicDeleted(name):
                yield from _all(before, name)
            case PartitionChanged(name, number, _):
                yield TopicPartition(name, number)
            case _:
                pass


def _all(image: ClusterImage, name: str) -> Iterator[TopicPartition]:
    topic = image.topics.get(name)
    if topic is not None:
        yield from (TopicPartition(name, number) for number in range(len(topic.partitions)))
