"""The file `quorum-state` of this replica (Kafka: FileQuorumStateStore).

It holds the epoch, the leader and the vote.
"""

from pathlib import PurePath

from headwater.raft.election_state import (
    FILE_NAME,
    ElectionState,
    decode_election_state,
    encode_election_state,
)
from headwater.storage.io.disk import Disk, read_whole, write_atomically


class FileQuorumStateStore:
    """Carries out `WriteElectionState` in the directory of `__cluster_metadata-0`."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: Disk, directory: PurePath) -> None:
        self._disk = disk
        self._path = directory / FILE_NAME

    def read_election_state(self) -> ElectionState | None:
        """What was written last; None in a new directory. CorruptFile if it is damaged.

        Note: damage must stop the start. A replica that forgets its vote may vote twice.
        """
        content = read_whole(self._disk, self._path)
        return None if content is None else decode_election_state(content)

    def write_election_state(
        self, election: ElectionState, *, kraft_version: int, voter_ids: tuple[int, ...]
    ) -> None:
        """Replace the file; durable on return."""
        content = encode_election_state(election, kraft_version=kraft_version, voter_ids=voter_ids)
        write_atomically(self._disk, self._path, content)
