"""`quorum-state` and snapshots on a disk that loses what was not synced."""

import random
from pathlib import PurePath

import pytest

from headwater.common.exceptions import CorruptFile
from headwater.metadata_store.raft.quorum_state_store import FileQuorumStateStore
from headwater.metadata_store.raft.snapshot_files import SnapshotFiles
from headwater.raft.election_state import ElectionState
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import ReplicaKey
from headwater.storage.io.disk import make_directory_durably, read_whole
from tests.simulation.fakes.lossy_disk import LossyDisk

DIRECTORY = PurePath("/data/__cluster_metadata-0")
FIRST = ElectionState(epoch=1, voted_key=ReplicaKey(2))
SECOND = ElectionState(epoch=2, leader_id=2)


def a_disk(seed: int) -> LossyDisk:
    disk = LossyDisk(random.Random(seed))
    make_directory_durably(disk, DIRECTORY)
    return disk


def write(disk: LossyDisk, election: ElectionState) -> None:
    FileQuorumStateStore(disk, DIRECTORY).write_election_state(
        election, kraft_version=1, voter_ids=(1, 2)
    )


def test_a_new_directory_has_no_election_state() -> None:
    assert FileQuorumStateStore(a_disk(1), DIRECTORY).read_election_state() is None


@pytest.mark.parametrize("seed", range(10))
def test_an_election_state_survives_a_power_cut(seed: int) -> None:
    disk = a_disk(seed)
    for election in (FIRST, SECOND):
        write(disk, election)
        after = disk.copy(random.Random(seed)).power_cut()
        assert FileQuorumStateStore(after, DIRECTORY).read_election_state() == election


def test_a_damaged_election_state_is_not_taken_for_none() -> None:
    disk = a_disk(1)
    file = disk.open(DIRECTORY / "quorum-state", create=True)
    file.write([b'{"leaderId":'], 0)
    with pytest.raises(CorruptFile):
        FileQuorumStateStore(disk, DIRECTORY).read_election_state()


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_is_whole_or_absent_after_a_power_cut(seed: int) -> None:
    disk = a_disk(seed)
    files = SnapshotFiles(disk, DIRECTORY)
    snapshot_id = OffsetAndEpoch(9, 2)
    writer = files.create(snapshot_id)
    assert writer is not None
    writer.append(b"first ")
    writer.append(b"second")
    halfway = SnapshotFiles(disk.copy(random.Random(seed)).power_cut(), DIRECTORY)
    assert halfway.ids == ()
    writer.freeze()
    after = disk.copy(random.Random(seed)).power_cut()
    frozen = SnapshotFiles(after, DIRECTORY)
    assert frozen.ids == (snapshot_id,)
    assert frozen.read(snapshot_id, 6, 3) == (12, b"sec")
    assert frozen.create(snapshot_id) is None
    path = DIRECTORY / "00000000000000000009-0000000002.checkpoint"
    assert read_whole(after, path) == b"first second"


def test_a_start_deletes_half_written_snapshots() -> None:
    disk = a_disk(1)
    writer = SnapshotFiles(disk, DIRECTORY).create(OffsetAndEpoch(9, 2))
    assert writer is not None
    writer.append(b"half")
    writer.close()
    assert disk.names(DIRECTORY) == ["00000000000000000009-0000000002.checkpoint.part"]
    SnapshotFiles(disk, DIRECTORY)
    assert disk.names(DIRECTORY) == []


def test_older_snapshots_are_deleted() -> None:
    files = SnapshotFiles(a_disk(1), DIRECTORY)
    for offset in (3, 7, 9):
        writer = files.create(OffsetAndEpoch(offset, 1))
        assert writer is not None
        writer.freeze()
    assert files.delete_before(OffsetAndEpoch(9, 1))
    assert files.ids == (OffsetAndEpoch(9, 1),)
    assert not files.delete_before(OffsetAndEpoch(9, 1))
    assert files.read(OffsetAndEpoch(3, 1), 0, 10) is None
