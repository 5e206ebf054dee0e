"""Control records of the metadata log and of snapshots.

    key    int16 version 0, int16 type
    value  the message, whose first field is its int16 version

LeaderChange begins every epoch, SnapshotHeader and SnapshotFooter enclose a snapshot, KRaftVersion
and KRaftVoters say how the quorum is made up (KIP-595, KIP-630, KIP-853).
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headwater.common.exceptions import CorruptBatch
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.schema import many, one, protocol_message
from headwater.protocol.versioned_codec import VersionedCodec, codec_for
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Buffer, read_header
from headwater.records.control_batches import ControlType
from headwater.records.record import Record
from headwater.records.record_reader import read_records

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")


@protocol_message
class LeaderChangeVoter:
    voter_id: int = one("int32", default=0)
    voter_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=1)


@protocol_message
class LeaderChangeMessage:
    version: int = one("int16", default=0)
    leader_id: int = one("int32", default=0)
    voters: tuple[LeaderChangeVoter, ...] = many(LeaderChangeVoter, default=())
    granting_voters: tuple[LeaderChangeVoter, ...] = many(LeaderChangeVoter, default=())


@protocol_message
class SnapshotHeaderRecord:
    version: int = one("int16", default=0)
    last_contained_log_timestamp: int = one("int64", default=0)


@protocol_message
class SnapshotFooterRecord:
    version: int = one("int16", default=0)


@protocol_message
class KRaftVersionRecord:
    version: int = one("int16", default=0)
    k_raft_version: int = one("int16", default=0)


@protocol_message
class VotersEndpoint:
    name: str = one("string", default="")
    host: str = one("string", default="")
    port: int = one("uint16", default=0)


@protocol_message
class KRaftVersionFeature:
    min_supported_version: int = one("int16", default=0)
    max_supported_version: int = one("int16", default=0)


@protocol_message
class VoterRecord:
    voter_id: int = one("int32", default=0)
    voter_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    endpoints: tuple[VotersEndpoint, ...] = many(VotersEndpoint, default=())
    k_raft_version_feature: KRaftVersionFeature = one(
        KRaftVersionFeature, default=KRaftVersionFeature()
    )


@protocol_message
class VotersRecord:
    version: int = one("int16", default=0)
    voters: tuple[VoterRecord, ...] = many(VoterRecord, default=())


ControlMessage = (
    LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)

NEWEST_VERSIONS: Final[dict[type, int]] = {
    LeaderChangeMessage: 1,
    SnapshotHeaderRecord: 0,
    SnapshotFooterRecord: 0,
    KRaftVersionRecord: 0,
    VotersRecord: 0,
}
_TYPES: Final[dict[type, ControlType]] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
}
_CLASSES: Final[dict[int, type[ControlMessage]]] = {number: cls for cls, number in _TYPES.items()}


class RaftControlRecord(NamedTuple):
    """A control record of the metadata log, at its offset."""

    offset: int
    message: ControlMessage


def control_batch(
    messages: Sequence[ControlMessage], *, base_offset: int, leader_epoch: int, timestamp: int
) -> bytes:
    """One control batch with these records."""
    records = [
        Record(
            key=_KEY.pack(0, _TYPES[type(message)]),
            value=_encode(message),
            timestamp=timestamp,
        )
        for message in messages
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)


def read_control_records(batches: Buffer) -> Iterator[RaftControlRecord]:
    """The control records of whole batches, without types unknown to this version."""
    position = 0
    while position < len(batches):
        header = read_header(batches, position)
        if header.is_control:
            for record in read_records(batches, header, position):
                message = _decode(record)
                if message is not None:
                    assert record.offset is not None
                    yield RaftControlRecord(record.offset, message)
        position += header.size_bytes


def _encode(message: ControlMessage) -> bytes:
    (part,) = _codec(type(message), message.version).write(message)
    assert isinstance(part, bytearray)
    return bytes(part)


def _decode(record: Record) -> ControlMessage | None:
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatch("a control record's key is too short")
    _, number = _KEY.unpack_from(record.key)
    cls = _CLASSES.get(number)
    if cls is None:
        return None
    if record.value is None or len(record.value) < _VERSION.size:
        raise CorruptBatch(f"{cls.__name__} without a version")
    (version,) = _VERSION.unpack_from(record.value)
    newest = NEWEST_VERSIONS[cls]
    if not 0 <= version <= newest:
        raise CorruptBatch(f"{cls.__name__} of version {version}; supported are 0 to {newest}")
    return _codec(cls, version).read(memoryview(record.value))


def _codec(cls: type, version: int) -> VersionedCodec[ControlMessage]:
    layout: VersionedCodec[ControlMessage] = codec_for(cls, version, flexible=True)
    return layout
