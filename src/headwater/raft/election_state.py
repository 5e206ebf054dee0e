"""A replica's durable election state, and its JSON in the file `quorum-state`.

Version 0 belongs to kraft.version 0 and lists the voters; version 1 has the directory id of the
replica that was voted for (KIP-853). Kafka reads and writes the same two.
"""

import json
from dataclasses import dataclass
from typing import Final, NamedTuple

from headwater.common.exceptions import CorruptFile, ProtocolError
from headwater.common.ids import TopicId
from headwater.raft.voter_set import NO_DIRECTORY_ID, ReplicaKey

FILE_NAME: Final = "quorum-state"
NO_ID: Final = -1


class LeaderAndEpoch(NamedTuple):
    """The leader of an epoch, or None while it has none."""

    leader_id: int | None
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """The epoch of a replica, the leader that it knows, and the vote that it gave.

    Invariant: a replica votes for one candidate per epoch. This state is durable before the
    answer to a Vote request, and before a leader sends records of its epoch.
    """

    epoch: int = 0
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None

    def is_leader(self, node_id: int) -> bool:
        return self.leader_id == node_id

    def is_voted_candidate(self, key: ReplicaKey) -> bool:
        voted = self.voted_key
        if voted is None or voted.id != key.id:
            return False
        return voted.directory_id in (NO_DIRECTORY_ID, key.directory_id)


def encode_election_state(
    election: ElectionState, *, kraft_version: int, voter_ids: tuple[int, ...]
) -> bytes:
    """The content of `quorum-state`, in the version that goes with kraft.version."""
    voted = election.voted_key
    leader_id = NO_ID if election.leader_id is None else election.leader_id
    common = {
        "leaderId": leader_id,
        "leaderEpoch": election.epoch,
        "votedId": NO_ID if voted is None else voted.id,
    }
    document: dict[str, object]
    if kraft_version == 0:
        document = {
            "clusterId": "",
            **common,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": each} for each in voter_ids],
            "data_version": 0,
        }
    else:
        directory_id = NO_DIRECTORY_ID if voted is None else voted.directory_id
        document = {**common, "votedDirectoryId": str(directory_id), "data_version": 1}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_election_state(content: bytes) -> ElectionState:
    """Decode a file. Raises CorruptFile if it is not in Kafka's versions 0 or 1."""
    try:
        document = json.loads(content)
        version = document["data_version"]
        leader_id = int(document["leaderId"])
        epoch = int(document["leaderEpoch"])
        voted_id = int(document["votedId"])
        directory = document.get("votedDirectoryId")
        directory_id = NO_DIRECTORY_ID if directory is None else TopicId.parse(directory)
    except (ValueError, KeyError, TypeError, AttributeError, ProtocolError) as error:
        raise CorruptFile(f"{FILE_NAME} cannot be read: {error}") from error
    if version not in (0, 1):
        raise CorruptFile(f"{FILE_NAME} has data_version {version}; supported are 0 and 1")
    return ElectionState(
        epoch=epoch,
        leader_id=None if leader_id == NO_ID else leader_id,
        voted_key=None if voted_id == NO_ID else ReplicaKey(voted_id, directory_id),
    )
