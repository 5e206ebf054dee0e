"""What every response says about the leader and its epoch."""

from collections.abc import Iterable

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    vote,
)
from headwater.raft.epoch_states import UnattachedState
from headwater.raft.raft_core import RaftCore
from headwater.raft.raft_messages import leader_id_or_none
from headwater.raft.voter_set import Endpoint, Endpoints

NodeEndpoint = (
    begin_quorum_epoch.NodeEndpoint
    | end_quorum_epoch.NodeEndpoint
    | fetch.NodeEndpoint
    | fetch_snapshot.NodeEndpoint
    | vote.NodeEndpoint
)


def leader_endpoints_of(core: RaftCore, leader_id: int, nodes: Iterable[NodeEndpoint]) -> Endpoints:
    """Endpoints of the leader that a response names; else those of the voter set."""
    for node in nodes:
        if node.node_id == leader_id:
            return (Endpoint(core.identity.listener_name, node.host, node.port),)
    return core.voters.endpoints_of(leader_id)


def maybe_handle_common_response(
    core: RaftCore,
    error: ErrorCode,
    leader_id_or_sentinel: int,
    epoch: int,
    endpoints: Endpoints,
    now_ms: int,
) -> bool | None:
    """None if the response must still be handled; else whether the connection is fine."""
    leader_id = leader_id_or_none(leader_id_or_sentinel)
    if epoch < core.quorum.epoch or error is ErrorCode.UNKNOWN_LEADER_EPOCH:
        # This replica knows a later epoch than the response.
        return True
    if epoch > core.quorum.epoch or error in (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ):
        core.maybe_transition(leader_id, epoch, endpoints, now_ms)
        return True
    # Without its endpoints a known leader cannot be followed either.
    is_without_leader = core.quorum.leader_id is None or isinstance(
        core.quorum.state, UnattachedState
    )
    if leader_id is not None and is_without_leader:
        core.maybe_transition(leader_id, epoch, endpoints, now_ms)
        # An observer may discover the leader and append its records in one response.
        return None if error is ErrorCode.NONE else True
    if error is ErrorCode.BROKER_NOT_AVAILABLE:
        return False
    if error is ErrorCode.INVALID_VOTER_KEY:
        return True
    return None
