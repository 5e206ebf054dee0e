"""The state of this replica in the quorum, and its legal transitions.

    Unattached   -> Unattached (higher epoch, or a vote given), Prospective, Follower
    Prospective  -> Unattached, Candidate (pre-votes of a majority), Follower
    Candidate    -> Unattached, Prospective (timeout), Leader, Follower
    Follower     -> Unattached, Prospective (fetch timeout), Follower (higher epoch)
    Leader       -> Unattached, Follower (higher epoch), Resigned
    Resigned     -> Unattached, Follower (higher epoch)

Observers are Unattached or Followers. Each transition emits `WriteElectionState` if it changes what
must be remembered, ahead of everything that the transition leads to.
"""

from collections.abc import Callable

from headwater.common.ports import Random
from headwater.raft.control_record_state_machine import KRaftControlRecordStateMachine
from headwater.raft.election_state import ElectionState, LeaderAndEpoch
from headwater.raft.epoch_states import (
    CandidateState,
    EpochElection,
    FollowerState,
    ProspectiveState,
    ResignedState,
    UnattachedState,
)
from headwater.raft.leader_state import LeaderState
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.raft_events import WriteElectionState
from headwater.raft.voter_set import Endpoints, ReplicaKey

EpochState = (
    UnattachedState
    | ProspectiveState
    | CandidateState
    | FollowerState
    | LeaderState
    | ResignedState
)


class QuorumState:
    """One replica's epoch, its role in it, and what it has made durable of them."""

    __slots__ = (
        "_config",
        "_emit",
        "_partition_state",
        "_random",
        "_written",
        "local_key",
        "state",
    )

    def __init__(
        self,
        *,
        local_key: ReplicaKey,
        partition_state: KRaftControlRecordStateMachine,
        config: QuorumConfig,
        random: Random,
        emit: Callable[[WriteElectionState], None],
    ) -> None:
        self.local_key = local_key
        self._partition_state = partition_state
        self._config = config
        self._random = random
        self._emit = emit
        self._written: ElectionState | None = None
        self.state: EpochState = UnattachedState(epoch=0, election_deadline_ms=0)

    def initialize(self, stored: ElectionState | None, log_epoch: int, now_ms: int) -> None:
        """Start from `quorum-state`, or from the log if that has seen a later epoch."""
        self._written = stored
        election = stored or ElectionState()
        deadline_ms = self._random_deadline_ms(now_ms)
        voters = self._partition_state.last_voter_set
        if election.epoch < log_epoch:
            initial: EpochState = UnattachedState(epoch=log_epoch, election_deadline_ms=deadline_ms)
        elif election.is_leader(self.local_key.id):
            initial = ResignedState(
                epoch=election.epoch,
                local_id=self.local_key.id,
                election_deadline_ms=deadline_ms,
                voted_key=election.voted_key,
                unacked_voters=[each for each in voters.ids if each != self.local_key.id],
            )
        elif election.leader_id is not None and voters.endpoints_of(election.leader_id):
            initial = FollowerState(
                epoch=election.epoch,
                leader_id=election.leader_id,
                leader_endpoints=voters.endpoints_of(election.leader_id),
                fetch_deadline_ms=now_ms + self._config.fetch_timeout_ms,
                update_voter_deadline_ms=now_ms + self._config.update_voter_period_ms,
                voted_key=election.voted_key,
            )
        elif (
            election.leader_id is None
            and election.is_voted_candidate(self.local_key)
            and self.is_voter
        ):
            initial = CandidateState(
                epoch=election.epoch,
                local_key=self.local_key,
                election_deadline_ms=deadline_ms,
                epoch_election=EpochElection.among(voters.keys, self.local_key.id),
            )
        else:
            initial = UnattachedState(
                epoch=election.epoch,
                election_deadline_ms=deadline_ms,
                leader_id=election.leader_id,
                voted_key=election.voted_key,
            )
        self._durable_transition_to(initial)

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        return self.state.leader_id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self.leader_id, self.epoch)

    @property
    def leader_endpoints(self) -> Endpoints:
        state = self.state
        if isinstance(state, FollowerState | ProspectiveState):
            return state.leader_endpoints
        return ()

    @property
    def is_voter(self) -> bool:
        return self._partition_state.last_voter_set.is_voter(self.local_key)

    @property
    def is_only_voter(self) -> bool:
        return self._partition_state.last_voter_set.is_only_voter(self.local_key)

    def can_grant_vote(self, key: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        return self.state.can_grant_vote(key, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)

    def transition_to_unattached(
        self, epoch: int, now_ms: int, *, leader_id: int | None = None
    ) -> None:
        """Follow no leader, in a later epoch, or in this one after a lost pre-vote."""
        state = self.state
        assert epoch > state.epoch or isinstance(state, ProspectiveState), state
        deadline_ms = self._random_deadline_ms(now_ms)
        is_running = isinstance(state, CandidateState | UnattachedState | ResignedState) or (
            isinstance(state, ProspectiveState) and not state.epoch_election.is_vote_rejected
        )
        if is_running and not isinstance(state, LeaderState | FollowerState):
            deadline_ms = state.election_deadline_ms
        self._durable_transition_to(
            UnattachedState(
                epoch=epoch,
                election_deadline_ms=deadline_ms,
                leader_id=leader_id,
                voted_key=self._voted_key_in(epoch),
            )
        )

    def add_voted_key(self, key: ReplicaKey, now_ms: int) -> None:
        """Give the one binding vote of this epoch."""
        state = self.state
        assert isinstance(state, UnattachedState | ProspectiveState), state
        if state.voted_key is not None:
            # Version 0 of quorum-state forgets directory ids.
            assert state.voted_key.id == key.id, state
            return
        # The candidate's chance to win is at least as good as ours: let it.
        deadline_ms = self._random_deadline_ms(now_ms)
        if isinstance(state, UnattachedState):
            self._durable_transition_to(
                UnattachedState(epoch=state.epoch, election_deadline_ms=deadline_ms, voted_key=key)
            )
        else:
            state.voted_key = key
            state.election_deadline_ms = deadline_ms
            self._durable_transition_to(state)

    def transition_to_follower(
        self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int
    ) -> None:
        state = self.state
        assert leader_id != self.local_key.id, "a replica does not follow itself"
        assert epoch >= state.epoch, (epoch, state)
        if epoch == state.epoch:
            assert state.leader_id in (None, leader_id), (leader_id, state)
            assert not isinstance(state, LeaderState), state
        self._durable_transition_to(
            FollowerState(
                epoch=epoch,
                leader_id=leader_id,
                leader_endpoints=endpoints,
                fetch_deadline_ms=now_ms + self._config.fetch_timeout_ms,
                update_voter_deadline_ms=now_ms + self._config.update_voter_period_ms,
                voted_key=self._voted_key_in(epoch),
            )
        )

    def transition_to_prospective(self, now_ms: int) -> None:
        """Ask for pre-votes. The epoch, its leader and the vote in it stay."""
        state = self.state
        assert self.is_voter, "observers do not stand for election"
        assert not isinstance(state, LeaderState | ProspectiveState | ResignedState), state
        self._durable_transition_to(
            ProspectiveState(
                epoch=state.epoch,
                election_deadline_ms=self._random_deadline_ms(now_ms),
                epoch_election=self._new_election(),
                leader_id=state.leader_id,
                leader_endpoints=self.leader_endpoints,
                voted_key=self._voted_key_in(state.epoch),
            )
        )

    def transition_to_candidate(self, now_ms: int) -> None:
        """Begin a new epoch with a vote for this replica."""
        state = self.state
        assert self.is_voter, "observers do not stand for election"
        assert isinstance(state, ProspectiveState), state
        self._durable_transition_to(
            CandidateState(
                epoch=state.epoch + 1,
                local_key=self.local_key,
                election_deadline_ms=self._random_deadline_ms(now_ms),
                epoch_election=self._new_election(),
            )
        )

    def transition_to_leader(self, epoch_start_offset: int, now_ms: int) -> LeaderState:
        state = self.state
        assert isinstance(state, CandidateState), state
        assert state.epoch_election.is_vote_granted, state
        leader = LeaderState(
            epoch=state.epoch,
            local_key=self.local_key,
            epoch_start_offset=epoch_start_offset,
            granting_voters=state.epoch_election.granting_voters(),
            voted_key=self.local_key,
            check_quorum_deadline_ms=now_ms + self._config.check_quorum_timeout_ms,
            begin_quorum_epoch_deadline_ms=now_ms,
        )
        leader.update_voters(self._partition_state.last_voter_set)
        self._durable_transition_to(leader)
        return leader

    def transition_to_resigned(
        self, preferred_successors: tuple[ReplicaKey, ...], now_ms: int
    ) -> None:
        state = self.state
        assert isinstance(state, LeaderState), state
        voters = self._partition_state.last_voter_set
        self._durable_transition_to(
            ResignedState(
                epoch=state.epoch,
                local_id=self.local_key.id,
                election_deadline_ms=self._random_deadline_ms(now_ms),
                voted_key=state.voted_key,
                unacked_voters=[each for each in voters.ids if each != self.local_key.id],
                preferred_successors=preferred_successors,
            )
        )

    def _voted_key_in(self, epoch: int) -> ReplicaKey | None:
        if epoch != self.state.epoch:
            return None
        return self.state.election().voted_key

    def _new_election(self) -> EpochElection:
        return EpochElection.among(self._partition_state.last_voter_set.keys, self.local_key.id)

    def _random_deadline_ms(self, now_ms: int) -> int:
        timeout_ms = self._config.election_timeout_ms
        return now_ms + timeout_ms + self._random.below(timeout_ms)

    def _durable_transition_to(self, state: EpochState) -> None:
        election = state.election()
        before = self._written
        if election != before:
            assert before is None or election.epoch >= before.epoch, (before, election)
            self._written = election
            self._emit(WriteElectionState(election))
        self.state = state
