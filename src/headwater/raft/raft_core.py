"""What all request handlers of a replica share: log, state, connections, effects.

The methods `become_*` change the state together with what depends on it: parked fetches are
answered, pending voter changes fail, and requests in flight are forgotten.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.common.ports import Random
from headwater.protocol.messages.fetch import FetchPartition, LeaderIdAndEpoch, PartitionData
from headwater.protocol.older_versions import Message
from headwater.raft.control_record_state_machine import KRaftControlRecordStateMachine
from headwater.raft.control_records import (
    ControlMessage,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    control_batch,
)
from headwater.raft.election_state import ElectionState, LeaderAndEpoch
from headwater.raft.epoch_states import CandidateState, ProspectiveState
from headwater.raft.leader_state import LeaderState
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.quorum_state import QuorumState
from headwater.raft.raft_events import (
    Effect,
    FlushLog,
    HandleCommit,
    HandleLeaderChange,
    HandleLoadSnapshot,
    SendRequest,
    SendResponse,
)
from headwater.raft.raft_messages import (
    add_voter_response,
    fetch_response,
    leader_id_or_sentinel,
    remove_voter_response,
)
from headwater.raft.replicated_log import LogAppendInfo, OffsetAndEpoch, ReplicatedLog
from headwater.raft.request_manager import RequestManager
from headwater.raft.voter_set import Endpoints, Node, ReplicaKey, VoterNode, VoterSet, node_of

MAX_KRAFT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftIdentity:
    """What a replica is told about itself and its cluster."""

    key: ReplicaKey
    cluster_id: str | None
    listener_name: str
    endpoints: Endpoints
    # Only brokers, which never become voters, may leave fetched records unsynced.
    followers_always_flush: bool = True
    static_voters: VoterSet = field(default_factory=VoterSet)
    bootstrap_servers: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedFetch:
    """A Fetch request that waits for records or a higher high watermark."""

    call_id: int
    replica: ReplicaKey
    request: FetchPartition
    deadline_ms: int


class RaftCore:
    """The state of one replica."""

    def __init__(
        self,
        identity: RaftIdentity,
        *,
        config: QuorumConfig,
        log: ReplicatedLog,
        random: Random,
    ) -> None:
        self.identity = identity
        self.config = config
        self.log = log
        self.effects: list[Effect] = []
        self.partition_state = KRaftControlRecordStateMachine(identity.static_voters, log)
        self.quorum = QuorumState(
            local_key=identity.key,
            partition_state=self.partition_state,
            config=config,
            random=random,
            emit=self.effects.append,
        )
        self.requests = RequestManager(
            identity.bootstrap_servers or self._static_voter_nodes(),
            retry_backoff_ms=config.retry_backoff_ms,
            request_timeout_ms=config.request_timeout_ms,
            random=random,
        )
        self.delayed_fetches: list[DelayedFetch] = []
        # Set by `FetchHandler`, which is what answers them.
        self.complete_delayed_fetches: Callable[[LeaderState], None] = lambda _: None
        # Like the log's high watermark of Kafka it outlives changes of state, but not a restart.
        self.high_watermark = 0
        self.listener_offset = -1
        self.announced_leader: LeaderAndEpoch | None = None
        # A voter refused a fetch of this replica as one of another cluster.
        self.has_inconsistent_cluster_id = False

    def initialize(self, stored: ElectionState | None, now_ms: int) -> None:
        self.partition_state.update_state()
        latest = self.log.latest_snapshot_id
        self.high_watermark = self.log.start_offset if latest is None else latest.offset
        self.quorum.initialize(stored, self.log.last_fetched_epoch, now_ms)
        self.deliver_commits()

    def _static_voter_nodes(self) -> tuple[Node, ...]:
        """Nodes of `controller.quorum.voters`, used without bootstrap servers."""
        listener = self.identity.listener_name
        nodes = (
            node_of(voter.key.id, voter.endpoints, listener)
            for voter in self.identity.static_voters.voters
            if voter.key.id != self.identity.key.id
        )
        return tuple(node for node in nodes if node is not None)

    # Facts

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.log.end_offset, self.log.last_fetched_epoch)

    @property
    def voters(self) -> VoterSet:
        return self.partition_state.last_voter_set

    @property
    def local_voter_node(self) -> VoterNode:
        return VoterNode(
            key=self.identity.key,
            endpoints=self.identity.endpoints,
            min_kraft_version=0,
            max_kraft_version=MAX_KRAFT_VERSION,
        )

    def leader_node(self) -> Node | None:
        """Where the leader listens, for responses that name it."""
        leader_id = self.quorum.leader_id
        if leader_id is None:
            return None
        if leader_id == self.identity.key.id:
            return node_of(leader_id, self.identity.endpoints, self.identity.listener_name)
        endpoints = self.quorum.leader_endpoints or self.voters.endpoints_of(leader_id)
        return node_of(leader_id, endpoints, self.identity.listener_name)

    def voter_address(self, node_id: int) -> Node | None:
        return node_of(node_id, self.voters.endpoints_of(node_id), self.identity.listener_name)

    def has_valid_cluster_id(self, cluster_id: str | None) -> bool:
        return cluster_id is None or cluster_id == self.identity.cluster_id

    def is_valid_voter_key(self, key: ReplicaKey) -> bool:
        """Whether a request was meant for this replica; requests of version 0 do not say."""
        if key.id < 0:
            return True
        return VoterNode(key=key, endpoints=()).is_voter(self.identity.key)

    def validate_voter_only_request(self, remote_id: int, epoch: int) -> ErrorCode:
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.INVALID_REQUEST if remote_id < 0 else ErrorCode.NONE

    def validate_leader_only_request(self, epoch: int) -> ErrorCode:
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.quorum.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not isinstance(self.quorum.state, LeaderState):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    # Effects

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def respond(self, call_id: int, message: Message) -> None:
        self.effects.append(SendResponse(call_id, message))

    def send(self, node: Node, message: Message, now_ms: int) -> bool:
        """Send a request unless the connection is busy or backing off."""
        if not self.requests.is_ready(node, now_ms):
            return False
        request = self.requests.start(node, message, now_ms)
        self.effects.append(
            SendRequest(correlation_id=request.correlation_id, destination=node, message=message)
        )
        return True

    # Transitions

    def become_unattached(self, epoch: int, now_ms: int, leader_id: int | None = None) -> None:
        self._leave_leadership()
        self.quorum.transition_to_unattached(epoch, now_ms, leader_id=leader_id)
        self.requests.reset_all()
        self.fire_leader_change()

    def become_follower(
        self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int
    ) -> None:
        self._leave_leadership()
        self.quorum.transition_to_follower(epoch, leader_id, endpoints, now_ms)
        self.requests.reset_all()
        self.fire_leader_change()

    def become_prospective(self, now_ms: int) -> None:
        self.quorum.transition_to_prospective(now_ms)
        self.requests.reset_all()
        self.fire_leader_change()
        self.count_votes(now_ms)

    def become_candidate(self, now_ms: int) -> None:
        self.quorum.transition_to_candidate(now_ms)
        self.requests.reset_all()
        self.fire_leader_change()
        self.count_votes(now_ms)

    def count_votes(self, now_ms: int) -> None:
        """Take the next step of an election once a majority has granted this one."""
        state = self.quorum.state
        if isinstance(state, ProspectiveState) and state.epoch_election.is_vote_granted:
            self.become_candidate(now_ms)
        elif isinstance(state, CandidateState) and state.epoch_election.is_vote_granted:
            self._become_leader(now_ms)

    def become_resigned(self, now_ms: int) -> None:
        state = self.quorum.state
        assert isinstance(state, LeaderState)
        self._leave_leadership()
        self.quorum.transition_to_resigned(state.voters_by_descending_offset(), now_ms)
        self.requests.reset_all()
        self.fire_leader_change()

    def maybe_transition(
        self, leader_id: int | None, epoch: int, endpoints: Endpoints, now_ms: int
    ) -> None:
        """Follow what a request or response says about the leader of an epoch."""
        if leader_id == self.identity.key.id:
            # An earlier incarnation of this node led the epoch.
            if epoch > self.quorum.epoch:
                self.become_unattached(epoch, now_ms)
            return
        if leader_id is not None and not endpoints:
            endpoints = self.voters.endpoints_of(leader_id)
        is_reachable = leader_id is not None and bool(endpoints)
        if epoch > self.quorum.epoch:
            if leader_id is not None and is_reachable:
                self.become_follower(epoch, leader_id, endpoints, now_ms)
            else:
                self.become_unattached(epoch, now_ms, leader_id)
        elif epoch == self.quorum.epoch and leader_id is not None and is_reachable:
            known = self.quorum.leader_id
            assert known in (None, leader_id), f"leaders {known} and {leader_id} in epoch {epoch}"
            if known is None or len(endpoints) > len(self.quorum.leader_endpoints):
                self.become_follower(epoch, leader_id, endpoints, now_ms)

    def _become_leader(self, now_ms: int) -> None:
        start_offset = self.log.end_offset
        state = self.quorum.transition_to_leader(start_offset, now_ms)
        self.requests.reset_all()
        self.log.initialize_leader_epoch(state.epoch)
        voters = tuple(LeaderChangeVoter(voter_id=each) for each in self.voters.ids)
        granting = tuple(LeaderChangeVoter(voter_id=each) for each in state.granting_voters)
        messages: list[ControlMessage] = [
            LeaderChangeMessage(
                leader_id=self.identity.key.id, voters=voters, granting_voters=granting
            )
        ]
        messages.extend(self._voters_at_epoch_start())
        self.append_control_records(state, messages, now_ms)

    def _voters_at_epoch_start(self) -> list[ControlMessage]:
        """The first leader copies the voters of the bootstrap checkpoint into the log."""
        version = self.partition_state.last_kraft_version
        if version == 0:
            return []
        offset = self.partition_state.last_voter_set_offset
        assert offset is not None, "kraft.version 1 without a VotersRecord"
        local = self.local_voter_node
        if offset >= 0 and self.voters.find(local.key.id) == local:
            return []
        updated = self.voters.update_voter(local)
        assert updated is not None, "the leader of a new epoch is a voter"
        return [KRaftVersionRecord(k_raft_version=version), updated.to_record()]

    def _leave_leadership(self) -> None:
        state = self.quorum.state
        if not isinstance(state, LeaderState):
            return
        self.finish_pending_change(state, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        delayed, self.delayed_fetches = self.delayed_fetches, []
        for each in delayed:
            data = PartitionData(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                high_watermark=-1,
                current_leader=LeaderIdAndEpoch(
                    leader_id=leader_id_or_sentinel(state.leader_id), leader_epoch=state.epoch
                ),
            )
            self.respond(each.call_id, fetch_response(data))

    def finish_pending_change(
        self, state: LeaderState, error: ErrorCode, text: str | None = None
    ) -> None:
        pending = state.pending_change
        if pending is None:
            return
        state.pending_change = None
        build = add_voter_response if pending.is_add else remove_voter_response
        self.respond(pending.call_id, build(error, text))

    # The log

    def append_control_records(
        self, state: LeaderState, messages: list[ControlMessage], now_ms: int
    ) -> LogAppendInfo:
        batch = control_batch(
            messages,
            base_offset=self.log.end_offset,
            leader_epoch=state.epoch,
            timestamp=now_ms,
        )
        return self.append_as_leader(state, bytearray(batch))

    def append_as_leader(self, state: LeaderState, batches: bytearray) -> LogAppendInfo:
        """Append, sync, and only then count this replica for the high watermark."""
        info = self.log.append_as_leader(batches, state.epoch)
        self.partition_state.update_state()
        state.update_voters(self.voters)
        # Followers may have unsynced records: they count for themselves.
        self.complete_delayed_fetches(state)
        self.emit(FlushLog(self.log.end_offset))
        if state.update_local_state(self.log.end_offset):
            self.on_leader_high_watermark(state)
        return info

    def on_leader_high_watermark(self, state: LeaderState) -> None:
        assert state.high_watermark is not None
        self.advance_high_watermark(state.high_watermark)
        self.complete_delayed_fetches(state)
        pending = state.pending_change
        if (
            pending is not None
            and pending.last_offset is not None
            and state.high_watermark > pending.last_offset
        ):
            self.finish_pending_change(state, ErrorCode.NONE)
        offset = self.partition_state.last_voter_set_offset
        if (
            offset is not None
            and state.high_watermark > offset
            and not self.voters.is_voter(self.identity.key)
        ):
            # The VotersRecord that removed this leader is committed.
            state.is_resign_requested = True

    def advance_high_watermark(self, offset: int) -> None:
        if offset <= self.high_watermark:
            return
        assert offset <= self.log.end_offset, (offset, self.log.end_offset)
        self.high_watermark = offset
        self.deliver_commits()

    def deliver_commits(self) -> None:
        """Hand committed records to the listener, in order and once per process."""
        latest = self.log.latest_snapshot_id
        if latest is not None and (
            self.listener_offset < 0 or self.listener_offset < self.log.start_offset
        ):
            self.emit(HandleLoadSnapshot(latest))
            self.listener_offset = latest.offset
        self.listener_offset = max(self.listener_offset, 0)
        if self.listener_offset < self.high_watermark:
            self.emit(HandleCommit(self.listener_offset, self.high_watermark))
            self.listener_offset = self.high_watermark
        self.fire_leader_change()

    def fire_leader_change(self) -> None:
        leader = self.quorum.leader_and_epoch
        state = self.quorum.state
        if isinstance(state, LeaderState):
            if self.listener_offset <= state.epoch_start_offset:
                return
        elif leader.leader_id == self.identity.key.id:
            # Resigned: no leader is known.
            leader = LeaderAndEpoch(None, leader.epoch)
        if leader != self.announced_leader:
            self.announced_leader = leader
            self.emit(HandleLeaderChange(leader))
