"""The states of partitions and replicas, and which may follow which: tables.

Nobody keeps the state of every partition and replica: most of it follows from an image, and
`partition_state` and `replica_state` say how. Only a deletion has more to remember
(`topic_deletion`). The tables say what may come after what, for that memory and for the tests.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from headwater.common.ids import TopicPartition
from headwater.metadata.cluster_image import ClusterImage


class PartitionState(Enum):
    """Where a partition stands."""

    NON_EXISTENT = auto()
    # Decided, and not agreed on yet.
    NEW = auto()
    ONLINE = auto()
    # There is nobody to lead it, or it is being deleted.
    OFFLINE = auto()


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


def partition_state(image: ClusterImage, name: TopicPartition) -> PartitionState:
    """As far as an image tells: what is only proposed is new in nobody's image."""
    partition = image.partition(*name)
    if partition is None:
        return PartitionState.NON_EXISTENT
    if image.topics[name.topic].is_deleting or partition.leader not in image.brokers:
        return PartitionState.OFFLINE
    return PartitionState.ONLINE
