"""Replica states and their valid transitions: Kafka's ReplicaStateMachine.

Only a topic deletion stores states (`topic_deletion`), and validates each transition with this
table. The others follow from the cluster image (`replica_state`).
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.cluster_image import ClusterImage


class ReplicaState(Enum):
    NON_EXISTENT = auto()
    NEW = auto()
    ONLINE = auto()
    OFFLINE = auto()
    DELETION_STARTED = auto()
    DELETION_SUCCESSFUL = auto()
    # Its broker is down or its disk failed: retried when the broker registers again.
    DELETION_INELIGIBLE = auto()


REPLICA_TRANSITIONS: Final[Mapping[ReplicaState, tuple[ReplicaState, ...]]] = {
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


def replica_state(image: ClusterImage, node_id: NodeId, name: TopicPartition) -> ReplicaState:
    partition = image.partition(*name)
    if partition is None or node_id not in partition.replicas:
        return ReplicaState.NON_EXISTENT
    if image.topics[name.topic].is_deleting or not image.has_replica(node_id, name):
        return ReplicaState.OFFLINE
    return ReplicaState.ONLINE
