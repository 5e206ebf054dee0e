"""Which replicas the replication quota throttles (`*.replication.throttled.*`).

The topic lists the throttled replicas, the broker has the rate.

Note: replicas in the ISR are never throttled, because producers with acks=all wait for them.
"""

from typing import Final

from headwater.common.ids import NodeId, TopicPartition

_ALL: Final = "*"


def is_throttled(replicas: tuple[str, ...], name: TopicPartition, node_id: NodeId) -> bool:
    """Return whether a topic's list contains the replica: `*`, or `partition:broker`."""
    if not replicas:
        return False
    return _ALL in replicas or f"{name.partition}:{node_id}" in replicas
