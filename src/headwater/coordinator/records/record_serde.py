"""Encode and decode records of the internal topics.

    key    record type (int16)  fields, never flexible
    value  version (int16)      fields, flexible from some version on; or no value at all

Each topic has its own serde, since both number their types from 0.

Note: the number before a key looks like a version, and was once called so, but is the record type.

Note: an unknown type is skipped, because a newer broker wrote it for a newer feature. A known type
in an unknown version must not be skipped: an incomplete group state is worse than none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from headwater.common.exceptions import ProtocolError, UnreadableRecord
from headwater.common.ids import NO_TIMESTAMP
from headwater.coordinator.records import consumer_group_records as consumer
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
)
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from headwater.coordinator.records.transaction_records import (
    TransactionLogKey,
    TransactionLogRecord,
    TransactionLogValue,
)
from headwater.coordinator.runtime.coordinator_effects import StateRecord
from headwater.protocol.send_parts import Part
from headwater.protocol.versioned_codec import VersionedCodec, codec_for

_INT16: Final = Struct(">h")
_KEY_VERSION: Final = 0
_WITH_EXPIRY: Final = 1


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    record_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind:
    """One record type: its number, key and value classes, and value versions."""

    record_type: int
    make: Callable[..., StateRecord]
    key: type
    value: type
    newest: int
    flexible_since: int
    written_version: int


class RecordSerde:
    """The record types of one internal topic."""

    def __init__(self, kinds: Sequence[RecordKind]) -> None:
        self._by_type: Mapping[int, RecordKind] = {kind.record_type: kind for kind in kinds}
        # A type that is only read comes before the one that is written in its place.
        self._by_record: Mapping[object, RecordKind] = {kind.make: kind for kind in kinds}

    def encode(self, record: StateRecord) -> tuple[bytes, bytes | None]:
        """Return key and value as Kafka 4.1 writes them."""
        kind = self._by_record[type(record)]
        key_layout = codec_for(kind.key, _KEY_VERSION, flexible=False)
        key = _INT16.pack(kind.record_type) + _joined(key_layout.write(record.key))
        if record.value is None:
            return key, None
        version = _written_version(kind, record.value)
        value_layout = codec_for(kind.value, version, flexible=version >= kind.flexible_since)
        return key, _INT16.pack(version) + _joined(value_layout.write(record.value))

    def decode(
        self, key: memoryview | bytes | None, value: memoryview | bytes | None
    ) -> StateRecord | UnknownRecord:
        """Decode a record. Raises `UnreadableRecord` if it is damaged or too new."""
        if key is None:
            raise UnreadableRecord("record without a key")
        record_type = _number(key)
        kind = self._by_type.get(record_type)
        if kind is None:
            return UnknownRecord(record_type)
        read_key = _read(kind.key, key, _KEY_VERSION, flexible=False)
        if value is None:
            return kind.make(read_key, None)
        version = _number(value)
        if not 0 <= version <= kind.newest:
            name = kind.value.__name__
            raise UnreadableRecord(
                f"unsupported version {version} of {name}, expected 0 to {kind.newest}"
            )
        flexible = version >= kind.flexible_since
        return kind.make(read_key, _read(kind.value, value, version, flexible=flexible))


def _written_version(kind: RecordKind, value: object) -> int:
    """Like Kafka 4.1, write commits with their own expire timestamp in version 1."""
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp != NO_TIMESTAMP:
        return _WITH_EXPIRY
    return kind.written_version


def _number(buffer: memoryview | bytes) -> int:
    if len(buffer) < _INT16.size:
        raise UnreadableRecord("record too short for its type or version")
    return int(_INT16.unpack_from(buffer)[0])


def _read(cls: type, buffer: memoryview | bytes, version: int, *, flexible: bool) -> object:
    layout: VersionedCodec[object] = codec_for(cls, version, flexible=flexible)
    try:
        return layout.read(memoryview(buffer)[_INT16.size :])
    except ProtocolError as error:
        raise UnreadableRecord(f"invalid {cls.__name__} of version {version}: {error}") from error


def _joined(parts: list[Part]) -> bytes:
    (part,) = parts
    assert isinstance(part, bytearray)
    return bytes(part)


def _consumer_kind(
    record_type: int, make: Callable[..., StateRecord], key: type, value: type
) -> RecordKind:
    """Records of KIP-848 have a single version so far, which is flexible."""
    return RecordKind(
        record_type=record_type,
        make=make,
        key=key,
        value=value,
        newest=0,
        flexible_since=0,
        written_version=0,
    )


def _offset_commit_kind(record_type: int) -> RecordKind:
    return RecordKind(
        record_type=record_type,
        make=OffsetCommitRecord,
        key=OffsetCommitKey,
        value=OffsetCommitValue,
        newest=4,
        flexible_since=4,
        written_version=4,
    )


GROUP_RECORDS: Final = RecordSerde(
    (
        _offset_commit_kind(0),
        _offset_commit_kind(1),
        RecordKind(
            record_type=2,
            make=GroupMetadataRecord,
            key=GroupMetadataKey,
            value=GroupMetadataValue,
            newest=4,
            flexible_since=4,
            written_version=3,
        ),
        _consumer_kind(
            3,
            consumer.ConsumerGroupMetadataRecord,
            consumer.GroupKey,
            consumer.ConsumerGroupMetadataValue,
        ),
        _consumer_kind(
            4,
            consumer.ConsumerGroupPartitionMetadataRecord,
            consumer.GroupKey,
            consumer.ConsumerGroupPartitionMetadataValue,
        ),
        _consumer_kind(
            5,
            consumer.ConsumerGroupMemberMetadataRecord,
            consumer.GroupMemberKey,
            consumer.ConsumerGroupMemberMetadataValue,
        ),
        _consumer_kind(
            6,
            consumer.ConsumerGroupTargetAssignmentMetadataRecord,
            consumer.GroupKey,
            consumer.ConsumerGroupTargetAssignmentMetadataValue,
        ),
        _consumer_kind(
            7,
            consumer.ConsumerGroupTargetAssignmentMemberRecord,
            consumer.GroupMemberKey,
            consumer.ConsumerGroupTargetAssignmentMemberValue,
        ),
        _consumer_kind(
            8,
            consumer.ConsumerGroupCurrentMemberAssignmentRecord,
            consumer.GroupMemberKey,
            consumer.ConsumerGroupCurrentMemberAssignmentValue,
        ),
        _consumer_kind(
            16,
            consumer.ConsumerGroupRegularExpressionRecord,
            consumer.RegularExpressionKey,
            consumer.ConsumerGroupRegularExpressionValue,
        ),
    )
)

TRANSACTION_RECORDS: Final = RecordSerde(
    (
        RecordKind(
            record_type=0,
            make=TransactionLogRecord,
            key=TransactionLogKey,
            value=TransactionLogValue,
            newest=1,
            flexible_since=1,
            written_version=1,
        ),
    )
)
