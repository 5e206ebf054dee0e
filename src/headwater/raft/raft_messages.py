"""Requests and responses about the one partition of the quorum (Kafka: RaftUtil)."""

from collections.abc import Iterable
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.protocol.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from headwater.raft.election_state import NO_ID, LeaderAndEpoch
from headwater.raft.quorum_config import FETCH_MAX_BYTES, FETCH_MAX_WAIT_MS, PARTITION, TOPIC_NAME
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import Endpoint, Endpoints, Node, ReplicaKey

METADATA_TOPIC_ID: Final = TopicId(bytes(15) + b"\x01")
"""Kafka's reserved id of `__cluster_metadata`."""


def leader_id_or_none(leader_id: int) -> int | None:
    return None if leader_id < 0 else leader_id


def leader_id_or_sentinel(leader_id: int | None) -> int:
    return NO_ID if leader_id is None else leader_id


def vote_request(
    *,
    cluster_id: str | None,
    voter: ReplicaKey,
    candidate: ReplicaKey,
    epoch: int,
    end: OffsetAndEpoch,
    is_pre_vote: bool,
) -> vote.VoteRequest:
    partition = vote.PartitionData(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=candidate.id,
        replica_directory_id=candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=is_pre_vote,
    )
    topic = vote.TopicData(topic_name=TOPIC_NAME, partitions=(partition,))
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=(topic,))


def vote_response(
    error: ErrorCode, leader: LeaderAndEpoch, *, is_granted: bool, node: Node | None
) -> vote.VoteResponse:
    partition = vote.PartitionResult(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader_id_or_sentinel(leader.leader_id),
        leader_epoch=leader.epoch,
        vote_granted=is_granted,
    )
    topic = vote.TopicResult(topic_name=TOPIC_NAME, partitions=(partition,))
    nodes = (
        ()
        if node is None
        else (vote.NodeEndpoint(node_id=node.id, host=node.host, port=node.port),)
    )
    return vote.VoteResponse(topics=(topic,), node_endpoints=nodes)


def begin_quorum_epoch_request(
    *, cluster_id: str | None, voter: ReplicaKey, leader: LeaderAndEpoch, endpoints: Endpoints
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=leader_id_or_sentinel(leader.leader_id),
        leader_epoch=leader.epoch,
    )
    topic = begin_quorum_epoch.TopicData(topic_name=TOPIC_NAME, partitions=(partition,))
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=(topic,),
        leader_endpoints=tuple(
            begin_quorum_epoch.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in endpoints
        ),
    )


def begin_quorum_epoch_response(
    error: ErrorCode, leader: LeaderAndEpoch, node: Node | None
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    module = begin_quorum_epoch
    partition = module.PartitionResult(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader_id_or_sentinel(leader.leader_id),
        leader_epoch=leader.epoch,
    )
    topic = module.TopicResult(topic_name=TOPIC_NAME, partitions=(partition,))
    nodes = (
        ()
        if node is None
        else (module.NodeEndpoint(node_id=node.id, host=node.host, port=node.port),)
    )
    return module.BeginQuorumEpochResponse(topics=(topic,), node_endpoints=nodes)


def end_quorum_epoch_request(
    *,
    cluster_id: str | None,
    leader: LeaderAndEpoch,
    preferred: tuple[ReplicaKey, ...],
    endpoints: Endpoints,
) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.PartitionData(
        partition_index=PARTITION,
        leader_id=leader_id_or_sentinel(leader.leader_id),
        leader_epoch=leader.epoch,
        preferred_successors=tuple(key.id for key in preferred),
        preferred_candidates=tuple(
            end_quorum_epoch.ReplicaInfo(
                candidate_id=key.id, candidate_directory_id=key.directory_id
            )
            for key in preferred
        ),
    )
    topic = end_quorum_epoch.TopicData(topic_name=TOPIC_NAME, partitions=(partition,))
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=(topic,),
        leader_endpoints=tuple(
            end_quorum_epoch.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in endpoints
        ),
    )


def end_quorum_epoch_response(
    error: ErrorCode, leader: LeaderAndEpoch, node: Node | None
) -> end_quorum_epoch.EndQuorumEpochResponse:
    module = end_quorum_epoch
    partition = module.PartitionResult(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader_id_or_sentinel(leader.leader_id),
        leader_epoch=leader.epoch,
    )
    topic = module.TopicResult(topic_name=TOPIC_NAME, partitions=(partition,))
    nodes = (
        ()
        if node is None
        else (module.NodeEndpoint(node_id=node.id, host=node.host, port=node.port),)
    )
    return module.EndQuorumEpochResponse(topics=(topic,), node_endpoints=nodes)


def fetch_request(
    *,
    cluster_id: str | None,
    replica: ReplicaKey,
    epoch: int,
    end: OffsetAndEpoch,
    high_watermark: int,
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=end.offset,
        last_fetched_epoch=end.epoch,
        partition_max_bytes=FETCH_MAX_BYTES,
        replica_directory_id=replica.directory_id,
        high_watermark=high_watermark,
    )
    topic = fetch.FetchTopic(topic=TOPIC_NAME, topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=replica.id),
        max_wait_ms=FETCH_MAX_WAIT_MS,
        max_bytes=FETCH_MAX_BYTES,
        topics=(topic,),
    )


def fetch_response(data: fetch.PartitionData, *, node: Node | None = None) -> fetch.FetchResponse:
    topic = fetch.FetchableTopicResponse(
        topic=TOPIC_NAME, topic_id=METADATA_TOPIC_ID, partitions=(data,)
    )
    nodes = (
        ()
        if node is None
        else (fetch.NodeEndpoint(node_id=node.id, host=node.host, port=node.port),)
    )
    return fetch.FetchResponse(responses=(topic,), node_endpoints=nodes)


def fetch_snapshot_request(
    *,
    cluster_id: str | None,
    replica: ReplicaKey,
    epoch: int,
    snapshot_id: OffsetAndEpoch,
    position: int,
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=snapshot_id.offset, epoch=snapshot_id.epoch
        ),
        position=position,
        replica_directory_id=replica.directory_id,
    )
    topic = fetch_snapshot.TopicSnapshot(name=TOPIC_NAME, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=replica.id,
        max_bytes=FETCH_MAX_BYTES,
        topics=(topic,),
    )


def fetch_snapshot_response(
    result: fetch_snapshot.PartitionSnapshotResult, *, node: Node | None = None
) -> fetch_snapshot.FetchSnapshotResponse:
    topic = fetch_snapshot.TopicSnapshotResult(name=TOPIC_NAME, partitions=(result,))
    nodes = (
        ()
        if node is None
        else (fetch_snapshot.NodeEndpoint(node_id=node.id, host=node.host, port=node.port),)
    )
    return fetch_snapshot.FetchSnapshotResponse(topics=(topic,), node_endpoints=nodes)


def update_voter_request(
    *, cluster_id: str | None, voter: ReplicaKey, epoch: int, endpoints: Endpoints, max_version: int
) -> update_raft_voter.UpdateRaftVoterRequest:
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter.id,
        voter_directory_id=voter.directory_id,
        listeners=tuple(
            update_raft_voter.Listener(name=each.name, host=each.host, port=each.port)
            for each in endpoints
        ),
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=max_version
        ),
    )


def add_voter_response(
    error: ErrorCode, text: str | None = None
) -> add_raft_voter.AddRaftVoterResponse:
    return add_raft_voter.AddRaftVoterResponse(error_code=error, error_message=text)


def remove_voter_response(
    error: ErrorCode, text: str | None = None
) -> remove_raft_voter.RemoveRaftVoterResponse:
    return remove_raft_voter.RemoveRaftVoterResponse(error_code=error, error_message=text)


def update_voter_response(
    error: ErrorCode, leader: LeaderAndEpoch, node: Node | None
) -> update_raft_voter.UpdateRaftVoterResponse:
    return update_raft_voter.UpdateRaftVoterResponse(
        error_code=error,
        current_leader=update_raft_voter.CurrentLeader(
            leader_id=leader_id_or_sentinel(leader.leader_id),
            leader_epoch=leader.epoch,
            host="" if node is None else node.host,
            port=0 if node is None else node.port,
        ),
    )


NamedEndpoint = (
    begin_quorum_epoch.LeaderEndpoint
    | end_quorum_epoch.LeaderEndpoint
    | add_raft_voter.Listener
    | update_raft_voter.Listener
)


def endpoints_of(listeners: Iterable[NamedEndpoint]) -> Endpoints:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)
