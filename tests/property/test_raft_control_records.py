"""Control records of the metadata log, held to the bytes of kio in every version."""

from importlib import import_module
from random import Random

import pytest

from headwater.common.ids import TopicId
from headwater.protocol.versioned_codec import VersionedCodec, codec_for
from headwater.raft.control_records import (
    NEWEST_VERSIONS,
    ControlMessage,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    control_batch,
    read_control_records,
)
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.snapshots import (
    build_snapshot,
    parse_snapshot_file_name,
    snapshot_file_name,
)
from headwater.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from headwater.records.batch_header import read_header
from tests.property.protocol.kio_judge import as_kio, kio_bytes, random_message
from tests.unit.protocol.bytes_of import joined

KIO_MODULES = {
    LeaderChangeMessage: "leader_change_message",
    SnapshotHeaderRecord: "snapshot_header_record",
    SnapshotFooterRecord: "snapshot_footer_record",
    KRaftVersionRecord: "k_raft_version_record",
    VotersRecord: "voters_record",
}
VERSIONS = [
    (cls, version) for cls, newest in NEWEST_VERSIONS.items() for version in range(newest + 1)
]
VOTERS = VoterSet.of(
    [
        VoterNode(
            key=ReplicaKey(1, TopicId(b"0123456789abcdef")),
            endpoints=(Endpoint("CONTROLLER", "localhost", 9093),),
        )
    ]
)


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
def test_our_bytes_are_kios_bytes(cls: type, version: int) -> None:
    name = KIO_MODULES[cls]
    kio_class = getattr(import_module(f"kio.schema.{name}.v{version}.data"), cls.__name__)
    layout: VersionedCodec[object] = codec_for(cls, version, flexible=True)
    for seed in range(8):
        message = random_message(Random(seed), cls, kio_class, version)
        encoded = joined(layout.write(message))
        assert encoded == kio_bytes(as_kio(message, kio_class, version))
        assert layout.read(memoryview(encoded)) == message


def test_a_control_batch_is_read_as_written() -> None:
    messages: list[ControlMessage] = [
        LeaderChangeMessage(leader_id=1),
        KRaftVersionRecord(k_raft_version=1),
        VOTERS.to_record(),
    ]
    batch = control_batch(messages, base_offset=7, leader_epoch=3, timestamp=5)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch, header.is_control) == (7, 3, True)
    assert list(read_control_records(batch)) == [(7 + n, each) for n, each in enumerate(messages)]


def test_a_snapshot_is_enclosed_by_header_and_footer() -> None:
    content = build_snapshot(
        OffsetAndEpoch(9, 2),
        batches=[],
        last_contained_log_timestamp=5,
        kraft_version=1,
        voters=VOTERS,
    )
    records = [each.message for each in read_control_records(content)]
    assert records == [
        SnapshotHeaderRecord(last_contained_log_timestamp=5),
        KRaftVersionRecord(k_raft_version=1),
        VOTERS.to_record(),
        SnapshotFooterRecord(),
    ]


def test_snapshot_file_names_are_kafkas() -> None:
    name = "00000000000000000123-0000000004.checkpoint"
    assert snapshot_file_name(OffsetAndEpoch(123, 4)) == name
    assert parse_snapshot_file_name(name) == OffsetAndEpoch(123, 4)
    assert parse_snapshot_file_name(name + ".part") is None
    assert parse_snapshot_file_name("quorum-state") is None
