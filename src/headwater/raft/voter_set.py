"""The voters of a quorum: their ids, endpoints and legal changes of the set.

A voter is a replica key: a node id and, from kraft.version 1 on, the id of the directory that has
its log. A node whose disk was replaced has another directory id and is another replica (KIP-853).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.raft.control_records import (
    KRaftVersionFeature,
    VoterRecord,
    VotersEndpoint,
    VotersRecord,
)

NO_DIRECTORY_ID: Final = NO_TOPIC_ID


class ReplicaKey(NamedTuple):
    """A replica of the metadata log. The zero directory id stands for none."""

    id: int
    directory_id: TopicId = NO_DIRECTORY_ID

    def __str__(self) -> str:
        return (
            f"{self.id}"
            if self.directory_id == NO_DIRECTORY_ID
            else f"{self.id}@{self.directory_id}"
        )


class Endpoint(NamedTuple):
    """Where a replica listens, by listener name."""

    name: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]


class Node(NamedTuple):
    """An address to send a request to. Bootstrap servers have negative ids."""

    id: int
    host: str
    port: int


def node_of(node_id: int, endpoints: Endpoints, listener: str) -> Node | None:
    """The address of a replica on one listener."""
    for each in endpoints:
        if each.name == listener:
            return Node(node_id, each.host, each.port)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterNode:
    """One voter, with the range of kraft.version that it supports."""

    key: ReplicaKey
    endpoints: Endpoints
    min_kraft_version: int = 0
    max_kraft_version: int = 1

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether a replica key is this voter's; kraft.version 0 has no directory ids."""
        if key.id != self.key.id:
            return False
        return self.key.directory_id in (NO_DIRECTORY_ID, key.directory_id)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters in the order of their node ids."""

    voters: tuple[VoterNode, ...] = ()

    @classmethod
    def of(cls, voters: Iterable[VoterNode]) -> Self:
        return cls(tuple(sorted(voters, key=lambda voter: voter.key)))

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.key.id for voter in self.voters)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(voter.key for voter in self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def find(self, node_id: int) -> VoterNode | None:
        for voter in self.voters:
            if voter.key.id == node_id:
                return voter
        return None

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.find(key.id)
        return voter is not None and voter.is_voter(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.is_voter(key)

    def endpoints_of(self, node_id: int) -> Endpoints:
        voter = self.find(node_id)
        return () if voter is None else voter.endpoints

    def add_voter(self, voter: VoterNode) -> "VoterSet | None":
        """The set with one more voter; None if the node id is taken."""
        if voter.key.id in self.ids:
            return None
        return VoterSet.of((*self.voters, voter))

    def remove_voter(self, key: ReplicaKey) -> "VoterSet | None":
        """The set without a voter; None if it is not in the set, or the last one."""
        remaining = tuple(voter for voter in self.voters if voter.key != key)
        if len(remaining) == len(self.voters) or not remaining:
            return None
        return VoterSet(remaining)

    def update_voter(self, voter: VoterNode) -> "VoterSet | None":
        """The set with a voter's new endpoints or versions; None if it has no such voter."""
        if not self.is_voter(voter.key):
            return None
        others = (each for each in self.voters if each.key.id != voter.key.id)
        return VoterSet.of((*others, voter))

    def has_overlapping_majority(self, that: "VoterSet") -> bool:
        """Whether every majority of one set shares a voter with those of the other."""
        ours = [key for key in self.keys if key not in that.keys]
        theirs = [key for key in that.keys if key not in self.keys]
        return len(ours) <= 1 and len(theirs) <= 1 and len(ours) + len(theirs) <= 1

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            voters=tuple(
                VoterRecord(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=tuple(
                        VotersEndpoint(name=each.name, host=each.host, port=each.port)
                        for each in voter.endpoints
                    ),
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.min_kraft_version,
                        max_supported_version=voter.max_kraft_version,
                    ),
                )
                for voter in self.voters
            )
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> Self:
        return cls.of(
            VoterNode(
                key=ReplicaKey(voter.voter_id, voter.voter_directory_id),
                endpoints=tuple(Endpoint(e.name, e.host, e.port) for e in voter.endpoints),
                min_kraft_version=voter.k_raft_version_feature.min_supported_version,
                max_kraft_version=voter.k_raft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )
