"""The states of a replica within an epoch, but for the leader's (`leader_state`).

    Unattached   knows of an epoch, follows no leader; may have voted in it
    Prospective  asks for pre-votes, without touching its epoch (KIP-996)
    Candidate    has voted for itself in a new epoch and asks for votes
    Follower     fetches from the leader of its epoch
    Resigned     was the leader of its epoch and is no more

`can_grant_vote` says to which request for a vote a state agrees. A binding vote is bounded by what
is durable in the epoch: one vote, and none once a leader is known.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.raft.election_state import ElectionState
from headwater.raft.replicated_log import RawSnapshotWriter
from headwater.raft.voter_set import NO_DIRECTORY_ID, Endpoints, ReplicaKey


@dataclass(slots=True)
class EpochElection:
    """Votes of one election, by node id; None for a voter that has not answered."""

    votes: dict[int, bool | None]

    @classmethod
    def among(cls, voters: Iterable[ReplicaKey], local_id: int) -> "EpochElection":
        votes: dict[int, bool | None] = dict.fromkeys((key.id for key in voters), None)
        if local_id in votes:
            votes[local_id] = True
        return cls(votes)

    def record_vote(self, node_id: int, *, is_granted: bool) -> None:
        if node_id in self.votes:
            self.votes[node_id] = is_granted

    def granting_voters(self) -> tuple[int, ...]:
        return tuple(node_id for node_id, vote in self.votes.items() if vote)

    def unrecorded_voters(self) -> tuple[int, ...]:
        return tuple(node_id for node_id, vote in self.votes.items() if vote is None)

    @property
    def majority(self) -> int:
        return len(self.votes) // 2 + 1

    @property
    def is_vote_granted(self) -> bool:
        return len(self.granting_voters()) >= self.majority

    @property
    def is_vote_rejected(self) -> bool:
        rejected = sum(1 for vote in self.votes.values() if vote is False)
        return len(self.votes) - rejected < self.majority


@dataclass(slots=True, kw_only=True)
class UnattachedState:
    epoch: int
    election_deadline_ms: int
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None

    def election(self) -> ElectionState:
        return ElectionState(epoch=self.epoch, leader_id=self.leader_id, voted_key=self.voted_key)

    def can_grant_vote(self, key: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        return _can_grant_vote(
            self.leader_id,
            self.voted_key,
            key,
            is_up_to_date=is_up_to_date,
            is_pre_vote=is_pre_vote,
        )


@dataclass(slots=True, kw_only=True)
class ProspectiveState:
    """Note: the leader stays known, so that losing leads back to following it."""

    epoch: int
    election_deadline_ms: int
    epoch_election: EpochElection
    leader_id: int | None = None
    leader_endpoints: Endpoints = ()
    voted_key: ReplicaKey | None = None

    def election(self) -> ElectionState:
        return ElectionState(epoch=self.epoch, leader_id=self.leader_id, voted_key=self.voted_key)

    def can_grant_vote(self, key: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        return _can_grant_vote(
            self.leader_id,
            self.voted_key,
            key,
            is_up_to_date=is_up_to_date,
            is_pre_vote=is_pre_vote,
        )


@dataclass(slots=True, kw_only=True)
class CandidateState:
    epoch: int
    local_key: ReplicaKey
    election_deadline_ms: int
    epoch_election: EpochElection

    @property
    def leader_id(self) -> int | None:
        return None

    def election(self) -> ElectionState:
        return ElectionState(epoch=self.epoch, voted_key=self.local_key)

    def can_grant_vote(self, _: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        return is_pre_vote and is_up_to_date


@dataclass(slots=True, kw_only=True)
class FollowerState:
    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    fetch_deadline_ms: int
    update_voter_deadline_ms: int
    voted_key: ReplicaKey | None = None
    has_fetched_from_leader: bool = False
    fetching_snapshot: RawSnapshotWriter | None = None

    def election(self) -> ElectionState:
        return ElectionState(epoch=self.epoch, leader_id=self.leader_id, voted_key=self.voted_key)

    def can_grant_vote(self, _: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        """A leader that was reached in this epoch is not to be voted out (KR-4)."""
        return is_pre_vote and is_up_to_date and not self.has_fetched_from_leader


@dataclass(slots=True, kw_only=True)
class ResignedState:
    """Note: a restarted leader begins in this state.

    It may have lost records that it had not synced. As the leader of the same epoch it could write
    other records at their offsets, and then an epoch and an offset would not identify a record.
    """

    epoch: int
    local_id: int
    election_deadline_ms: int
    voted_key: ReplicaKey | None = None
    unacked_voters: list[int] = field(default_factory=list)
    preferred_successors: tuple[ReplicaKey, ...] = ()

    @property
    def leader_id(self) -> int | None:
        return self.local_id

    def election(self) -> ElectionState:
        return ElectionState(epoch=self.epoch, leader_id=self.local_id, voted_key=self.voted_key)

    def can_grant_vote(self, _: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        return is_pre_vote and is_up_to_date


def _can_grant_vote(
    leader_id: int | None,
    voted_key: ReplicaKey | None,
    key: ReplicaKey,
    *,
    is_up_to_date: bool,
    is_pre_vote: bool,
) -> bool:
    if is_pre_vote:
        return is_up_to_date
    if voted_key is not None:
        # The same candidate again: its first request or our answer was lost.
        return voted_key.id == key.id and voted_key.directory_id in (
            NO_DIRECTORY_ID,
            key.directory_id,
        )
    return leader_id is None and is_up_to_date
