"""Vote, BeginQuorumEpoch and EndQuorumEpoch: both sides of an election."""

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from headwater.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from headwater.protocol.messages.vote import VoteRequest, VoteResponse
from headwater.raft.common_response import leader_endpoints_of, maybe_handle_common_response
from headwater.raft.election_state import LeaderAndEpoch
from headwater.raft.epoch_states import (
    CandidateState,
    FollowerState,
    ProspectiveState,
    ResignedState,
    UnattachedState,
)
from headwater.raft.leader_state import LeaderState
from headwater.raft.quorum_config import PARTITION, TOPIC_NAME
from headwater.raft.raft_core import RaftCore
from headwater.raft.raft_messages import (
    begin_quorum_epoch_request,
    begin_quorum_epoch_response,
    end_quorum_epoch_request,
    end_quorum_epoch_response,
    endpoints_of,
    vote_request,
    vote_response,
)
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.request_manager import InflightRequest
from headwater.raft.voter_set import ReplicaKey


class ElectionHandler:
    """Elections of one replica."""

    __slots__ = ("_core",)

    def __init__(self, core: RaftCore) -> None:
        self._core = core

    # Vote

    def handle_vote_request(self, call_id: int, request: VoteRequest, now_ms: int) -> None:
        core = self._core
        if not core.has_valid_cluster_id(request.cluster_id):
            core.respond(call_id, VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        if not _is_about_quorum(
            [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics]
        ):
            core.respond(call_id, VoteResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        error, is_granted = self._decide_vote(request, now_ms)
        core.respond(
            call_id,
            vote_response(
                error,
                core.quorum.leader_and_epoch,
                is_granted=is_granted,
                node=core.leader_node(),
            ),
        )

    def _decide_vote(self, request: VoteRequest, now_ms: int) -> tuple[ErrorCode, bool]:
        core = self._core
        partition = request.topics[0].partitions[0]
        epoch = partition.replica_epoch
        end = OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch)
        is_epoch_impossible = end.epoch > epoch or (end.epoch == epoch and not partition.pre_vote)
        if end.offset < 0 or end.epoch < 0 or is_epoch_impossible:
            return ErrorCode.INVALID_REQUEST, False
        error = core.validate_voter_only_request(partition.replica_id, epoch)
        if error is not ErrorCode.NONE:
            return error, False
        if epoch > core.quorum.epoch:
            core.become_unattached(epoch, now_ms)
        if not core.is_valid_voter_key(ReplicaKey(request.voter_id, partition.voter_directory_id)):
            return ErrorCode.INVALID_VOTER_KEY, False
        candidate = ReplicaKey(partition.replica_id, partition.replica_directory_id)
        is_granted = core.quorum.can_grant_vote(
            candidate, is_up_to_date=end.is_at_least(core.end), is_pre_vote=partition.pre_vote
        )
        if is_granted and not partition.pre_vote:
            core.quorum.add_voted_key(candidate, now_ms)
        return ErrorCode.NONE, is_granted

    def send_vote_requests(self, state: ProspectiveState | CandidateState, now_ms: int) -> None:
        """Ask every voter that has not answered, while the election can still be won."""
        core = self._core
        if state.epoch_election.is_vote_rejected:
            return
        for node_id in state.epoch_election.unrecorded_voters():
            voter = core.voters.find(node_id)
            node = core.voter_address(node_id)
            if voter is None or node is None:
                continue
            core.send(
                node,
                vote_request(
                    cluster_id=core.identity.cluster_id,
                    voter=voter.key,
                    candidate=core.identity.key,
                    epoch=state.epoch,
                    end=core.end,
                    is_pre_vote=isinstance(state, ProspectiveState),
                ),
                now_ms,
            )

    def handle_vote_response(
        self, inflight: InflightRequest, response: VoteResponse, now_ms: int
    ) -> bool:
        core = self._core
        if response.error_code is ErrorCode.UNSUPPORTED_VERSION:
            # A voter before Vote version 2 knows no pre-vote; it must not hinder elections.
            self._record_vote(inflight, now_ms, is_granted=True)
            return True
        if response.error_code is not ErrorCode.NONE or not response.topics:
            return False
        partition = response.topics[0].partitions[0]
        handled = maybe_handle_common_response(
            core,
            partition.error_code,
            partition.leader_id,
            partition.leader_epoch,
            leader_endpoints_of(core, partition.leader_id, response.node_endpoints),
            now_ms,
        )
        if handled is not None:
            return handled
        if partition.error_code is not ErrorCode.NONE:
            return False
        self._record_vote(inflight, now_ms, is_granted=partition.vote_granted)
        return True

    def _record_vote(self, inflight: InflightRequest, now_ms: int, *, is_granted: bool) -> None:
        state = self._core.quorum.state
        if not isinstance(state, ProspectiveState | CandidateState):
            return
        request = inflight.message
        assert isinstance(request, VoteRequest)
        asked = request.topics[0].partitions[0]
        # A pre-vote is not binding, so it must never count in the election of a leader.
        if asked.replica_epoch != state.epoch:
            return
        if asked.pre_vote is not isinstance(state, ProspectiveState):
            return
        state.epoch_election.record_vote(inflight.node.id, is_granted=is_granted)
        self._core.count_votes(now_ms)
        if isinstance(state, ProspectiveState) and state.epoch_election.is_vote_rejected:
            self.lose_pre_vote(state, now_ms)

    def lose_pre_vote(self, state: ProspectiveState, now_ms: int) -> None:
        """Go back to the leader if one is known; else wait for the next election."""
        core = self._core
        if state.leader_id is not None and state.leader_endpoints:
            core.become_follower(state.epoch, state.leader_id, state.leader_endpoints, now_ms)
        else:
            core.become_unattached(state.epoch, now_ms, state.leader_id)

    # BeginQuorumEpoch

    def handle_begin_quorum_epoch_request(
        self, call_id: int, request: BeginQuorumEpochRequest, now_ms: int
    ) -> None:
        core = self._core
        if not core.has_valid_cluster_id(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            core.respond(call_id, BeginQuorumEpochResponse(error_code=error))
            return
        if not _is_about_quorum(
            [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics]
        ):
            core.respond(call_id, BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        partition = request.topics[0].partitions[0]
        error = core.validate_voter_only_request(partition.leader_id, partition.leader_epoch)
        if error is ErrorCode.NONE:
            core.maybe_transition(
                partition.leader_id,
                partition.leader_epoch,
                endpoints_of(request.leader_endpoints),
                now_ms,
            )
            key = ReplicaKey(request.voter_id, partition.voter_directory_id)
            if not core.is_valid_voter_key(key):
                error = ErrorCode.INVALID_VOTER_KEY
        core.respond(
            call_id,
            begin_quorum_epoch_response(error, core.quorum.leader_and_epoch, core.leader_node()),
        )

    def send_begin_quorum_epoch_requests(self, state: LeaderState, now_ms: int) -> None:
        core = self._core
        if now_ms < state.begin_quorum_epoch_deadline_ms:
            return
        state.begin_quorum_epoch_deadline_ms = now_ms + core.config.begin_quorum_epoch_interval_ms
        for key in core.voters.keys:
            node = core.voter_address(key.id)
            if key.id == core.identity.key.id or node is None:
                continue
            core.send(
                node,
                begin_quorum_epoch_request(
                    cluster_id=core.identity.cluster_id,
                    voter=key,
                    leader=core.quorum.leader_and_epoch,
                    endpoints=core.identity.endpoints,
                ),
                now_ms,
            )

    def handle_begin_quorum_epoch_response(
        self, response: BeginQuorumEpochResponse, now_ms: int
    ) -> bool:
        core = self._core
        if response.error_code is not ErrorCode.NONE or not response.topics:
            return False
        partition = response.topics[0].partitions[0]
        handled = maybe_handle_common_response(
            core,
            partition.error_code,
            partition.leader_id,
            partition.leader_epoch,
            leader_endpoints_of(core, partition.leader_id, response.node_endpoints),
            now_ms,
        )
        return partition.error_code is ErrorCode.NONE if handled is None else handled

    # EndQuorumEpoch

    def handle_end_quorum_epoch_request(
        self, call_id: int, request: EndQuorumEpochRequest, now_ms: int
    ) -> None:
        core = self._core
        if not core.has_valid_cluster_id(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            core.respond(call_id, EndQuorumEpochResponse(error_code=error))
            return
        if not _is_about_quorum(
            [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics]
        ):
            core.respond(call_id, EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        partition = request.topics[0].partitions[0]
        error = core.validate_voter_only_request(partition.leader_id, partition.leader_epoch)
        if error is ErrorCode.NONE:
            core.maybe_transition(
                partition.leader_id,
                partition.leader_epoch,
                endpoints_of(request.leader_endpoints),
                now_ms,
            )
            state = core.quorum.state
            if isinstance(state, FollowerState) and state.leader_id == partition.leader_id:
                preferred = [
                    ReplicaKey(each.candidate_id, each.candidate_directory_id)
                    for each in partition.preferred_candidates
                ] or [ReplicaKey(each) for each in partition.preferred_successors]
                state.fetch_deadline_ms = now_ms + self._end_epoch_backoff_ms(preferred)
        core.respond(
            call_id,
            end_quorum_epoch_response(error, core.quorum.leader_and_epoch, core.leader_node()),
        )

    def _end_epoch_backoff_ms(self, preferred: list[ReplicaKey]) -> int:
        """The voter with the longest log stands for election first."""
        core = self._core
        position = len(preferred)
        for number, key in enumerate(preferred):
            if core.is_valid_voter_key(key):
                position = number
                break
        largest_ms = core.config.election_backoff_max_ms
        if position == 0:
            return 0
        if position >= len(preferred):
            return largest_ms
        return min(largest_ms, (largest_ms >> (len(preferred) - 1)) << (position - 1))

    def send_end_quorum_epoch_requests(self, state: ResignedState, now_ms: int) -> None:
        core = self._core
        for node_id in state.unacked_voters:
            node = core.voter_address(node_id)
            if node is None:
                continue
            core.send(
                node,
                end_quorum_epoch_request(
                    cluster_id=core.identity.cluster_id,
                    leader=core.quorum.leader_and_epoch,
                    preferred=state.preferred_successors,
                    endpoints=core.identity.endpoints,
                ),
                now_ms,
            )

    def handle_end_quorum_epoch_response(
        self, inflight: InflightRequest, response: EndQuorumEpochResponse, now_ms: int
    ) -> bool:
        core = self._core
        if response.error_code is not ErrorCode.NONE or not response.topics:
            return False
        partition = response.topics[0].partitions[0]
        handled = maybe_handle_common_response(
            core,
            partition.error_code,
            partition.leader_id,
            partition.leader_epoch,
            leader_endpoints_of(core, partition.leader_id, response.node_endpoints),
            now_ms,
        )
        if handled is not None:
            return handled
        state = core.quorum.state
        if isinstance(state, ResignedState) and inflight.node.id in state.unacked_voters:
            state.unacked_voters.remove(inflight.node.id)
        return partition.error_code is ErrorCode.NONE

    # Timers

    def handle_leader_refused(self, leader: LeaderAndEpoch, now_ms: int) -> None:
        """Stand for election before the fetch timeout.

        Note: safe even if the leader is well. Voters that still fetch from it grant no pre-vote,
        and without a majority of pre-votes this replica follows the leader again.
        """
        core = self._core
        state = core.quorum.state
        follows = isinstance(state, FollowerState) and core.quorum.leader_and_epoch == leader
        if follows and core.quorum.is_voter:
            core.become_prospective(now_ms)

    def poll_unattached(self, state: UnattachedState, now_ms: int) -> None:
        if self._core.quorum.is_voter and now_ms >= state.election_deadline_ms:
            self._core.become_prospective(now_ms)

    def poll_nominee(self, state: ProspectiveState | CandidateState, now_ms: int) -> None:
        if now_ms < state.election_deadline_ms:
            self.send_vote_requests(state, now_ms)
        elif isinstance(state, CandidateState):
            self._core.become_prospective(now_ms)
        else:
            self.lose_pre_vote(state, now_ms)

    def poll_resigned(self, state: ResignedState, now_ms: int) -> None:
        core = self._core
        if now_ms >= state.election_deadline_ms:
            # In this epoch other replicas would take this one for the leader.
            core.become_unattached(core.quorum.epoch + 1, now_ms)
        else:
            self.send_end_quorum_epoch_requests(state, now_ms)


def _is_about_quorum(topics: list[tuple[str, list[int]]]) -> bool:
    return topics == [(TOPIC_NAME, [PARTITION])]
