"""Which replica a consumer should read from: the one in its own rack (KIP-392, FT-10).

Pure. Only the leader is asked, since only it knows how far the others are. What a reader would get
wrong: None means the leader itself, also where it merely has nobody better to name.
"""

from collections.abc import Callable

from headwater.common.ids import NodeId
from headwater.replication.follower_replica import FollowerReplica
from headwater.replication.leader_state import LeaderState

RackOf = Callable[[NodeId], str | None]
"""The rack of a broker that is up; None where it has none or is not up."""


def nearest_replica(
    leading: LeaderState, offset: int, *, own_rack: str | None, client_rack: str, rack_of: RackOf
) -> NodeId | None:
    """The follower in the client's rack that is in sync, has the offset, and has the most."""
    if own_rack == client_rack:
        return None
    best: tuple[int, int, NodeId] | None = None
    for node_id, follower in leading.followers.items():
        if (
            node_id in leading.in_sync.committed
            and _has(follower, offset)
            and rack_of(node_id) == client_rack
        ):
            rank = (follower.end_offset, follower.caught_up_ms, node_id)
            best = rank if best is None else max(best, rank)
    return None if best is None else best[2]


def _has(follower: FollowerReplica, offset: int) -> bool:
    return follower.log_start_offset <= offset <= follower.end_offset
