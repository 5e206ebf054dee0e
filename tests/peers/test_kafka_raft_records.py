"""Kafka's own dump tool reads our control records and snapshots of the metadata log."""

from pathlib import Path

import pytest

from headwater.common.ids import TopicId
from headwater.raft.control_records import (
    ControlMessage,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    control_batch,
)
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.snapshots import build_snapshot, snapshot_file_name
from headwater.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.peers.apache_kafka import run_class
from tests.peers.jars import KAFKA_4_1

pytestmark = pytest.mark.peers

VOTERS = VoterSet.of(
    VoterNode(
        key=ReplicaKey(each, TopicId(bytes([each + 1] * 16))),
        endpoints=(Endpoint("CONTROLLER", "localhost", 9093 + each),),
    )
    for each in range(3)
)
VOTERS_JSON = '"voterId":2,"voterDirectoryId":"AwMDAwMDAwMDAwMDAwMDAw"'


def dump(path: Path) -> str:
    return run_class(
        KAFKA_4_1,
        "kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        str(path),
    )


def test_kafka_reads_the_records_at_the_start_of_an_epoch(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    voters = tuple(LeaderChangeVoter(voter_id=each) for each in VOTERS.ids)
    messages: list[ControlMessage] = [
        LeaderChangeMessage(leader_id=1, voters=voters, granting_voters=voters[1:]),
        KRaftVersionRecord(k_raft_version=1),
        VOTERS.to_record(),
    ]
    path.write_bytes(control_batch(messages, base_offset=0, leader_epoch=4, timestamp=7))
    text = dump(path)
    assert 'LeaderChange: {"version":0,"leaderId":1' in text
    assert '"grantingVoters":[{"voterId":1},{"voterId":2}]' in text
    assert 'KRaftVersion {"version":0,"kRaftVersion":1}' in text
    assert VOTERS_JSON in text
    assert "isvalid: true" in text


def test_kafka_reads_a_snapshot(tmp_path: Path) -> None:
    snapshot_id = OffsetAndEpoch(123, 4)
    path = tmp_path / snapshot_file_name(snapshot_id)
    path.write_bytes(
        build_snapshot(
            snapshot_id,
            batches=[],
            last_contained_log_timestamp=7,
            kraft_version=1,
            voters=VOTERS,
        )
    )
    text = dump(path)
    assert "Snapshot end offset: 123, epoch: 4" in text
    assert 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":7}' in text
    assert VOTERS_JSON in text
    assert 'SnapshotFooter {"version":0}' in text
