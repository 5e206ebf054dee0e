"""Choose the preferred read replica in the consumer's rack (KIP-392, FT-10).

Pure. Only the leader selects, since only it knows the followers' offsets.

Note: None means the leader itself, also if there is no better replica.
"""

from collections.abc import Callable

from headwater.common.ids import NodeId
from headwater.replication.follower_replica import FollowerReplica
from headwater.replication.leader_state import LeaderState

RackOf = Callable[[NodeId], str | None]
"""The rack of a live broker; None if it has none or is not live."""


def nearest_replica(
    leader_state: LeaderState,
    offset: int,
    *,
    own_rack: str | None,
    client_rack: str,
    rack_of: RackOf,
) -> NodeId | None:
    """Return the most advanced ISR member in the client's rack that has the offset."""
    if own_rack == client_rack:
        return None
    best: tuple[int, int, NodeId] | None = None
    for node_id, follower in leader_state.followers.items():
        if (
            node_id in leader_state.isr.committed
            and _has(follower, offset)
            and rack_of(node_id) == client_rack
        ):
            rank = (follower.end_offset, follower.caught_up_ms, node_id)
            best = rank if best is None else max(best, rank)
    return None if best is None else best[2]


def _has(follower: FollowerReplica, offset: int) -> bool:
    return follower.log_start_offset <= offset <= follower.end_offset
