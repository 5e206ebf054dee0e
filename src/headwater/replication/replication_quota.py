"""How fast replicas that are being moved may be fetched (`*.replication.throttled.*`).

A topic names the replicas that the limit is for, and a broker has the limit. What a reader would
get wrong: who is in sync is never slowed down, whatever the topic says. Writers wait for it.
"""

from typing import Final

from headwater.common.ids import NodeId, TopicPartition

_ALL: Final = "*"


def is_throttled(replicas: tuple[str, ...], name: TopicPartition, node_id: NodeId) -> bool:
    """Whether a topic's list names the replica: by a star, or as `partition:broker`."""
    if not replicas:
        return False
    return _ALL in replicas or f"{name.partition}:{node_id}" in replicas
