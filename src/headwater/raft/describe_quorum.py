"""DescribeQuorum: the leader's view of voters and observers (KIP-595, KIP-836)."""

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages import describe_quorum as messages
from headwater.raft.leader_state import LeaderState, ReplicaState
from headwater.raft.quorum_config import PARTITION, TOPIC_NAME
from headwater.raft.raft_core import RaftCore
from headwater.raft.raft_messages import leader_id_or_sentinel


def describe_quorum(
    core: RaftCore, request: messages.DescribeQuorumRequest, now_ms: int
) -> messages.DescribeQuorumResponse:
    """Describe the quorum, or NOT_LEADER_OR_FOLLOWER with the leader."""
    asked = [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics]
    state = core.quorum.state
    leader = core.quorum.leader_and_epoch
    error = ErrorCode.NONE
    if asked != [(TOPIC_NAME, [PARTITION])]:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not isinstance(state, LeaderState):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error is not ErrorCode.NONE or not isinstance(state, LeaderState):
        refused = messages.PartitionResult(
            partition_index=PARTITION,
            error_code=error,
            leader_id=leader_id_or_sentinel(leader.leader_id),
            leader_epoch=leader.epoch,
        )
        topic = messages.TopicResult(topic_name=TOPIC_NAME, partitions=(refused,))
        return messages.DescribeQuorumResponse(topics=(topic,))
    described = messages.PartitionResult(
        partition_index=PARTITION,
        leader_id=leader_id_or_sentinel(leader.leader_id),
        leader_epoch=leader.epoch,
        high_watermark=-1 if state.high_watermark is None else state.high_watermark,
        current_voters=tuple(
            _described(core, each, now_ms) for each in state.voter_states.values()
        ),
        observers=tuple(_described(core, each, now_ms) for each in state.active_observers(now_ms)),
    )
    nodes = tuple(
        messages.Node(
            node_id=voter.key.id,
            listeners=tuple(
                messages.Listener(name=each.name, host=each.host, port=each.port)
                for each in voter.endpoints
            ),
        )
        for voter in core.voters.voters
    )
    topic = messages.TopicResult(topic_name=TOPIC_NAME, partitions=(described,))
    return messages.DescribeQuorumResponse(topics=(topic,), nodes=nodes)


def _described(core: RaftCore, state: ReplicaState, now_ms: int) -> messages.ReplicaState:
    is_local = state.key.id == core.identity.key.id
    return messages.ReplicaState(
        replica_id=state.key.id,
        replica_directory_id=state.key.directory_id,
        log_end_offset=core.log.end_offset if is_local else state.end_offset,
        last_fetch_timestamp=now_ms if is_local else state.last_fetch_ms,
        last_caught_up_timestamp=now_ms if is_local else state.last_caught_up_ms,
    )
