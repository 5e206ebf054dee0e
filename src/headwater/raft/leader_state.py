"""What the leader of an epoch knows of the other replicas, and the high watermark.

Invariant: the high watermark passes the start of the leader's epoch by counting a record of that
epoch on a majority of the voters. Records of earlier epochs are committed with it and never by
count alone (Raft, 5.4.2), which is why a leader first appends a LeaderChangeMessage.
"""

from dataclasses import dataclass, field

from headwater.raft.election_state import ElectionState
from headwater.raft.quorum_config import CAUGHT_UP_WITHIN_MS, OBSERVER_SESSION_TIMEOUT_MS
from headwater.raft.voter_set import Endpoints, ReplicaKey, VoterNode, VoterSet

UNKNOWN_OFFSET = -1


@dataclass(slots=True, kw_only=True)
class ReplicaState:
    """A voter or an observer as seen by the leader."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    end_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    last_fetch_leader_end_offset: int = -1

    def update(self, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif 0 < self.last_fetch_leader_end_offset <= fetch_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = fetch_offset


@dataclass(slots=True, kw_only=True)
class PendingVoterChange:
    """AddRaftVoter or RemoveRaftVoter, waiting for its VotersRecord to commit."""

    call_id: int
    is_add: bool
    deadline_ms: int
    voter: VoterNode
    # Set once the VotersRecord is appended; an addition first asks for the voter's versions.
    last_offset: int | None = None


@dataclass(slots=True, kw_only=True)
class LeaderState:
    epoch: int
    local_key: ReplicaKey
    epoch_start_offset: int
    granting_voters: tuple[int, ...]
    voted_key: ReplicaKey | None
    check_quorum_deadline_ms: int
    begin_quorum_epoch_deadline_ms: int
    voter_states: dict[int, ReplicaState] = field(default_factory=dict)
    observer_states: dict[ReplicaKey, ReplicaState] = field(default_factory=dict)
    fetched_voters: dict[int, None] = field(default_factory=dict)
    high_watermark: int | None = None
    end_offset: int = 0
    pending_change: PendingVoterChange | None = None
    is_resign_requested: bool = False

    @property
    def leader_id(self) -> int | None:
        return self.local_key.id

    def election(self) -> ElectionState:
        return ElectionState(
            epoch=self.epoch, leader_id=self.local_key.id, voted_key=self.voted_key
        )

    def can_grant_vote(self, _: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:  # noqa: ARG002
        return False

    def is_voter(self, key: ReplicaKey) -> bool:
        state = self.voter_states.get(key.id)
        return state is not None and _matches(state.key, key)

    def state_of(self, key: ReplicaKey) -> ReplicaState | None:
        if self.is_voter(key):
            return self.voter_states[key.id]
        return self.observer_states.get(key)

    def update_voters(self, voters: VoterSet) -> None:
        """Follow a new voter set; replicas keep what is known of them."""
        before = self.voter_states
        after: dict[int, ReplicaState] = {}
        for voter in voters.voters:
            state = before.get(voter.key.id)
            if state is None or not _matches(state.key, voter.key):
                state = self.observer_states.pop(voter.key, None) or ReplicaState(key=voter.key)
            state.key = voter.key
            state.endpoints = voter.endpoints
            after[voter.key.id] = state
        for node_id, state in before.items():
            if after.get(node_id) is not state:
                state.endpoints = ()
                self.observer_states.setdefault(state.key, state)
        self.voter_states = after
        self.fetched_voters = {each: None for each in self.fetched_voters if each in after}
        local = self.voter_states.get(self.local_key.id)
        if local is not None:
            local.end_offset = max(local.end_offset, self.end_offset)

    def update_local_state(self, end_offset: int) -> bool:
        """The leader's own log is durable to an offset; True if the high watermark moved."""
        assert end_offset >= self.end_offset, "the log of a leader only grows"
        self.end_offset = end_offset
        local = self.voter_states.get(self.local_key.id)
        if local is not None and self.is_voter(self.local_key):
            local.end_offset = end_offset
        return self.maybe_update_high_watermark()

    def update_replica_state(self, key: ReplicaKey, fetch_offset: int, now_ms: int) -> bool:
        """Record a replica's fetch offset; True if the high watermark advanced."""
        if key.id < 0:
            return False
        state = self.state_of(key)
        if state is None:
            state = self.observer_states.setdefault(key, ReplicaState(key=key))
        state.update(fetch_offset, self.end_offset, now_ms)
        return self.is_voter(key) and self.maybe_update_high_watermark()

    def maybe_update_high_watermark(self) -> bool:
        offsets = sorted((state.end_offset for state in self.voter_states.values()), reverse=True)
        if not offsets:
            return False
        candidate = min(offsets[len(offsets) // 2], self.end_offset)
        if candidate <= self.epoch_start_offset:
            return False
        # A smaller value is possible after a change of the voter set.
        if self.high_watermark is not None and candidate <= self.high_watermark:
            return False
        self.high_watermark = candidate
        return True

    def note_fetch(self, key: ReplicaKey, now_ms: int, timeout_ms: int) -> None:
        """Put off the check of the quorum once a majority of the voters has fetched."""
        if not self.is_voter(key) or key.id == self.local_key.id:
            return
        self.fetched_voters[key.id] = None
        needed = len(self.voter_states) // 2 + 1
        if self.is_voter(self.local_key):
            needed -= 1
        if len(self.fetched_voters) >= needed:
            self.fetched_voters.clear()
            self.check_quorum_deadline_ms = now_ms + timeout_ms

    def has_check_quorum_expired(self, now_ms: int) -> bool:
        is_alone = len(self.voter_states) == 1 and self.is_voter(self.local_key)
        return not is_alone and now_ms >= self.check_quorum_deadline_ms

    def voters_by_descending_offset(self) -> tuple[ReplicaKey, ...]:
        """Preferred successors: the voter with the longest log first."""
        others = [
            state for state in self.voter_states.values() if not _matches(state.key, self.local_key)
        ]
        others.sort(key=lambda state: (-state.end_offset, state.key))
        return tuple(state.key for state in others)

    def is_replica_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer may become a voter (KIP-853)."""
        state = self.observer_states.get(key)
        return (
            state is not None
            and state.last_caught_up_ms >= 0
            and state.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS
        )

    def active_observers(self, now_ms: int) -> list[ReplicaState]:
        """Observers that have fetched lately; the others are forgotten."""
        for key, state in list(self.observer_states.items()):
            is_inactive = now_ms - state.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS
            if is_inactive and key != self.local_key:
                del self.observer_states[key]
        return [self.observer_states[key] for key in sorted(self.observer_states)]


def _matches(voter: ReplicaKey, key: ReplicaKey) -> bool:
    return VoterNode(key=voter, endpoints=()).is_voter(key)
