"""The states of partitions and replicas, and which may follow which: tables.

Nobody keeps the state of every partition and replica: most of it follows from an image, and
`partition_state` and `replica_state` say how. Only a deletion has more to remember
(`topic_deletion`). The tables say what may come after what, for that memory and for the tests.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from headwater.cluster.image import ClusterImage
from headwater.model.ids import NodeId, TopicPartition


class PartitionState(Enum):
    """Where a partition stands."""

    NON_EXISTENT = auto()
    # Decided, and not agreed on yet.
    NEW = auto()
    ONLINE = auto()
    # There is nobody to lead it, or it is being deleted.
    OFFLINE = auto()


class ReplicaState(Enum):
    """Where one replica stands."""

    NON_EXISTENT = auto()
    NEW = auto()
    ONLINE = auto()
    OFFLINE = auto()
    DELETION_STARTED = auto()
    DELETION_SUCCESSFUL = auto()
    # Its broker is down, or could not do it: not before it comes again.
    DELETION_INELIGIBLE = auto()


PARTITION_MOVES: Final[Mapping[PartitionState, tuple[PartitionState, ...]]] = {
    PartitionState.NON_EXISTENT: (PartitionState.NEW,),
    PartitionState.NEW: (PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.ONLINE: (PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.OFFLINE: (
        PartitionState.ONLINE,
        PartitionState.OFFLINE,
        PartitionState.NON_EXISTENT,
    ),
}

REPLICA_MOVES: Final[Mapping[ReplicaState, tuple[ReplicaState, ...]]] = {
    ReplicaState.NON_EXISTENT: (ReplicaState.NEW,),
    ReplicaState.NEW: (ReplicaState.ONLINE, ReplicaState.OFFLINE),
    ReplicaState.ONLINE: (ReplicaState.ONLINE, ReplicaState.OFFLINE),
    ReplicaState.OFFLINE: (
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_INELIGIBLE,
    ),
    ReplicaState.DELETION_STARTED: (
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.DELETION_INELIGIBLE,
    ),
    ReplicaState.DELETION_SUCCESSFUL: (ReplicaState.NON_EXISTENT,),
    ReplicaState.DELETION_INELIGIBLE: (ReplicaState.ONLINE, ReplicaState.OFFLINE),
}


def partition_state(image: ClusterImage, name: TopicPartition) -> PartitionState:
    """As far as an image tells: what is only proposed is new in nobody's image."""
    partition = image.partition(*name)
    if partition is None:
        return PartitionState.NON_EXISTENT
    if image.topics[name.topic].is_deleting or partition.leader not in image.brokers:
        return PartitionState.OFFLINE
    return PartitionState.ONLINE


def replica_state(image: ClusterImage, node_id: NodeId, name: TopicPartition) -> ReplicaState:
    """As far as an image tells."""
    partition = image.partition(*name)
    if partition is None or node_id not in partition.replicas:
        return ReplicaState.NON_EXISTENT
    if image.topics[name.topic].is_deleting or not image.has_replica(node_id, name):
        return ReplicaState.OFFLINE
    return ReplicaState.ONLINE
