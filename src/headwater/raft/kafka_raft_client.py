"""A replica of the metadata quorum: events in, effects out (KafkaRaftClient).

    client = KafkaRaftClient(identity, config=config, log=log, random=random)
    effects = client.initialize(stored_election_state, now_ms)
    effects = client.decide(RequestReceived(...))
    effects = client.decide(Poll(now_ms))            # at client.next_poll_ms(), or earlier
    appended = client.append(epoch, batches, now_ms)  # the leader only

The shell is serial: it carries out the effects of one event, syncs included, before it hands over
the next. Time comes with events; it may come from a clock that is wrong, but must not go back.
"""

from dataclasses import dataclass
from typing import assert_never

from headwater.common.error_codes import ErrorCode
from headwater.common.ports import Random
from headwater.protocol.messages.add_raft_voter import AddRaftVoterRequest
from headwater.protocol.messages.api_versions import ApiVersionsResponse
from headwater.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from headwater.protocol.messages.describe_quorum import DescribeQuorumRequest
from headwater.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from headwater.protocol.messages.fetch import FetchRequest, FetchResponse
from headwater.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from headwater.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from headwater.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from headwater.protocol.messages.vote import VoteRequest, VoteResponse
from headwater.protocol.older_versions import Message
from headwater.raft.describe_quorum import describe_quorum
from headwater.raft.election_handler import ElectionHandler
from headwater.raft.election_state import ElectionState, LeaderAndEpoch
from headwater.raft.epoch_states import (
    CandidateState,
    FollowerState,
    ProspectiveState,
    ResignedState,
    UnattachedState,
)
from headwater.raft.fetch_handler import FetchHandler
from headwater.raft.leader_state import LeaderState
from headwater.raft.quorum_config import OBSERVER_SESSION_TIMEOUT_MS, QuorumConfig
from headwater.raft.raft_core import RaftCore, RaftIdentity
from headwater.raft.raft_events import (
    Effect,
    Event,
    LeaderRefused,
    Poll,
    RequestReceived,
    Resign,
    ResponseReceived,
)
from headwater.raft.replicated_log import LogAppendInfo, OffsetAndEpoch, ReplicatedLog
from headwater.raft.request_manager import InflightRequest
from headwater.raft.snapshot_handler import SnapshotHandler
from headwater.raft.voter_change_handler import VoterChangeHandler
from headwater.raft.voter_set import Node, VoterSet, node_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where a leader's append went, or why it did not; and what to do about it."""

    error: ErrorCode
    info: LogAppendInfo | None
    effects: list[Effect]


class KafkaRaftClient:
    """One replica. Not for threads: one caller at a time."""

    __slots__ = ("_core", "_elections", "_fetches", "_snapshots", "_voter_changes")

    def __init__(
        self,
        identity: RaftIdentity,
        *,
        config: QuorumConfig,
        log: ReplicatedLog,
        random: Random,
    ) -> None:
        self._core = RaftCore(identity, config=config, log=log, random=random)
        self._elections = ElectionHandler(self._core)
        self._fetches = FetchHandler(self._core)
        self._snapshots = SnapshotHandler(self._core)
        self._voter_changes = VoterChangeHandler(self._core)

    def initialize(self, stored: ElectionState | None, now_ms: int) -> list[Effect]:
        """Start with what `quorum-state` and the log have."""
        self._core.initialize(stored, now_ms)
        state = self._core.quorum.state
        if self._core.quorum.is_only_voter and isinstance(state, UnattachedState):
            # No other replica could win, so there is nothing to wait for.
            self._core.become_prospective(now_ms)
        self._poll(now_ms)
        return self._taken()

    def decide(self, event: Event) -> list[Effect]:
        match event:
            case RequestReceived():
                self._handle_request(event.call_id, event.message, event.now_ms)
            case ResponseReceived():
                self._handle_response(event)
            case Poll():
                pass
            case Resign():
                state = self._core.quorum.state
                if isinstance(state, LeaderState) and state.epoch == event.epoch:
                    state.is_resign_requested = True
            case LeaderRefused():
                self._elections.handle_leader_refused(event.leader, event.now_ms)
            case _:
                assert_never(event)
        self._poll(event.now_ms)
        return self._taken()

    def append(self, epoch: int, batches: bytearray, now_ms: int) -> Appended:
        """Append record batches as the leader of an epoch, all or none."""
        state = self._core.quorum.state
        if not isinstance(state, LeaderState) or state.epoch != epoch:
            return Appended(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, info=None, effects=[])
        info = self._core.append_as_leader(state, batches)
        self._poll(now_ms)
        return Appended(error=ErrorCode.NONE, info=info, effects=self._taken())

    def clean_log(self) -> bool:
        """Delete what the latest snapshot covers; True if something went."""
        latest = self._core.log.latest_snapshot_id
        if latest is None or latest.offset > self._core.high_watermark:
            return False
        if not self._core.log.delete_before_snapshot(latest):
            return False
        self._core.partition_state.truncate_old_entries(latest.offset)
        return True

    def next_poll_ms(self, now_ms: int) -> int:
        """When the next timer is due."""
        core = self._core
        state = core.quorum.state
        deadlines: list[int] = []
        match state:
            case UnattachedState() | ProspectiveState() | CandidateState() | ResignedState():
                deadlines.append(state.election_deadline_ms)
            case FollowerState():
                deadlines += [state.fetch_deadline_ms, state.update_voter_deadline_ms]
            case LeaderState():
                deadlines += [state.check_quorum_deadline_ms, state.begin_quorum_epoch_deadline_ms]
                deadlines.extend(each.deadline_ms for each in core.delayed_fetches)
                if state.pending_change is not None:
                    deadlines.append(state.pending_change.deadline_ms)
            case _:
                assert_never(state)
        connection_ms = core.requests.next_deadline_ms(now_ms)
        if connection_ms is not None:
            deadlines.append(connection_ms)
        later = [each for each in deadlines if each > now_ms]
        return min(later, default=now_ms + core.config.retry_backoff_ms)

    # Facts for the shell, metrics and checks

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return self._core.quorum.leader_and_epoch

    @property
    def leader_node(self) -> Node | None:
        """Where the leader listens, if it is known."""
        return self._core.leader_node()

    @property
    def has_inconsistent_cluster_id(self) -> bool:
        """Whether a voter has answered that this replica belongs to another cluster."""
        return self._core.has_inconsistent_cluster_id

    @property
    def state_name(self) -> str:
        """Kafka's value of the metric `current-state`."""
        return type(self._core.quorum.state).__name__.removesuffix("State").lower()

    @property
    def is_leader(self) -> bool:
        return isinstance(self._core.quorum.state, LeaderState)

    @property
    def is_voter(self) -> bool:
        return self._core.quorum.is_voter

    def observer_count(self, now_ms: int) -> int:
        """Observers that have fetched lately, if this replica leads."""
        state = self._core.quorum.state
        if not isinstance(state, LeaderState):
            return 0
        return sum(
            now_ms - each.last_fetch_ms < OBSERVER_SESSION_TIMEOUT_MS
            for each in state.observer_states.values()
        )

    @property
    def election(self) -> ElectionState:
        return self._core.quorum.state.election()

    @property
    def has_fetched_from_leader(self) -> bool:
        """Whether the leader of the current epoch has answered a fetch of this replica."""
        state = self._core.quorum.state
        return isinstance(state, FollowerState) and state.has_fetched_from_leader

    @property
    def high_watermark(self) -> int:
        return self._core.high_watermark

    @property
    def end(self) -> OffsetAndEpoch:
        return self._core.end

    @property
    def voters(self) -> VoterSet:
        return self._core.voters

    @property
    def kraft_version(self) -> int:
        return self._core.partition_state.last_kraft_version

    def voters_at(self, offset: int) -> VoterSet | None:
        return self._core.partition_state.voter_set_at(offset)

    def kraft_version_at(self, offset: int) -> int:
        return self._core.partition_state.kraft_version_at(offset)

    # Requests and responses

    def _handle_request(self, call_id: int, message: Message, now_ms: int) -> None:
        match message:
            case VoteRequest():
                self._elections.handle_vote_request(call_id, message, now_ms)
            case BeginQuorumEpochRequest():
                self._elections.handle_begin_quorum_epoch_request(call_id, message, now_ms)
            case EndQuorumEpochRequest():
                self._elections.handle_end_quorum_epoch_request(call_id, message, now_ms)
            case FetchRequest():
                self._fetches.handle_fetch_request(call_id, message, now_ms)
            case FetchSnapshotRequest():
                self._snapshots.handle_fetch_snapshot_request(call_id, message, now_ms)
            case AddRaftVoterRequest():
                self._voter_changes.handle_add_voter_request(call_id, message, now_ms)
            case RemoveRaftVoterRequest():
                self._voter_changes.handle_remove_voter_request(call_id, message, now_ms)
            case UpdateRaftVoterRequest():
                self._voter_changes.handle_update_voter_request(call_id, message, now_ms)
            case DescribeQuorumRequest():
                self._core.respond(call_id, describe_quorum(self._core, message, now_ms))
            case _:
                raise AssertionError(f"not a request of the quorum: {type(message).__name__}")

    def _handle_response(self, event: ResponseReceived) -> None:
        requests = self._core.requests
        inflight = requests.finish(event.correlation_id)
        if inflight is None:
            return
        message = event.message
        if message is None or not self._dispatch_response(inflight, message, event.now_ms):
            requests.back_off(inflight.node, event.now_ms)
        elif isinstance(message, FetchResponse) and self._core.quorum.leader_id is None:
            # Without this pause, voters that elect a leader would keep each other busy.
            requests.back_off_bootstrap(event.now_ms)

    def _dispatch_response(self, inflight: InflightRequest, message: Message, now_ms: int) -> bool:
        match message:
            case VoteResponse():
                return self._elections.handle_vote_response(inflight, message, now_ms)
            case BeginQuorumEpochResponse():
                return self._elections.handle_begin_quorum_epoch_response(message, now_ms)
            case EndQuorumEpochResponse():
                return self._elections.handle_end_quorum_epoch_response(inflight, message, now_ms)
            case FetchResponse():
                return self._fetches.handle_fetch_response(inflight, message, now_ms)
            case FetchSnapshotResponse():
                return self._snapshots.handle_fetch_snapshot_response(message, now_ms)
            case UpdateRaftVoterResponse():
                return self._voter_changes.handle_update_voter_response(message, now_ms)
            case ApiVersionsResponse():
                return self._voter_changes.handle_api_versions_response(inflight, message, now_ms)
            case _:
                raise AssertionError(f"not a response of the quorum: {type(message).__name__}")

    # Time

    def _poll(self, now_ms: int) -> None:
        """Let timers act until the state stays what it is."""
        for _ in range(8):
            before = self._core.quorum.state
            self._poll_state(now_ms)
            if self._core.quorum.state is before:
                return

    def _poll_state(self, now_ms: int) -> None:
        state = self._core.quorum.state
        match state:
            case UnattachedState():
                self._elections.poll_unattached(state, now_ms)
                if self._core.quorum.state is state:
                    self._fetch_from_any_voter(now_ms)
            case ProspectiveState() | CandidateState():
                self._elections.poll_nominee(state, now_ms)
            case ResignedState():
                self._elections.poll_resigned(state, now_ms)
            case FollowerState():
                self._poll_follower(state, now_ms)
            case LeaderState():
                self._poll_leader(state, now_ms)
            case _:
                assert_never(state)

    def _poll_leader(self, state: LeaderState, now_ms: int) -> None:
        if state.is_resign_requested or state.has_check_quorum_expired(now_ms):
            self._core.become_resigned(now_ms)
            return
        self._fetches.expire_delayed(state, now_ms)
        self._voter_changes.expire(state, now_ms)
        self._elections.send_begin_quorum_epoch_requests(state, now_ms)

    def _poll_follower(self, state: FollowerState, now_ms: int) -> None:
        core = self._core
        node = node_of(state.leader_id, state.leader_endpoints, core.identity.listener_name)
        assert node is not None
        has_expired = now_ms >= state.fetch_deadline_ms
        if core.quorum.is_voter:
            if has_expired:
                core.become_prospective(now_ms)
                return
        elif has_expired or core.requests.has_failed(node, now_ms):
            self._fetch_from_any_voter(now_ms)
            return
        elif core.requests.has_any_inflight(now_ms):
            return
        if now_ms >= state.update_voter_deadline_ms:
            state.update_voter_deadline_ms = now_ms + core.config.update_voter_period_ms
            if core.quorum.is_voter and self._voter_changes.needs_update():
                self._voter_changes.send_update_voter(node, now_ms)
                return
        if state.fetching_snapshot is not None:
            self._snapshots.send_fetch_snapshot(state, node, now_ms)
        else:
            self._fetches.send_fetch(node, now_ms)

    def _fetch_from_any_voter(self, now_ms: int) -> None:
        """Discover the leader: a voter that is not the leader names it in its error."""
        node = self._core.requests.find_ready_bootstrap_node(now_ms)
        if node is not None:
            self._fetches.send_fetch(node, now_ms)

    def _taken(self) -> list[Effect]:
        effects = self._core.effects[:]
        self._core.effects.clear()
        return effects
