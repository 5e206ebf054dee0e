"""Metadata records: framing, every type in every version, and what is refused."""

import random
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from headwater.common.exceptions import ProtocolError, UnsupportedInVersion
from headwater.common.ids import TopicId
from headwater.metadata.metadata_record_serde import (
    ApiMessageAndVersion,
    decode_record,
    encode_record,
    newest,
)
from headwater.metadata.metadata_records import (
    OLDEST_AND_NEWEST,
    RECORD_TYPES,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionRecord,
)
from headwater.protocol.schema import ProtocolField, wire_fields

VERSIONS = [
    (cls, version)
    for cls, (oldest, latest) in OLDEST_AND_NEWEST.items()
    for version in range(oldest, latest + 1)
]
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16}


def random_record(rand: random.Random, cls: type[Any], version: int) -> Any:
    """A record with random values in the fields of a version."""
    hints = get_type_hints(cls)
    values = {
        each.name: _value(rand, each, hints[each.name], version)
        for each in wire_fields(cls)
        if each.travels_in(version)
    }
    return cls(**values)


def _value(rand: random.Random, field: ProtocolField, hint: Any, version: int) -> object:
    if field.is_nullable_in(version) and rand.random() < 0.3:
        return None
    if field.repeated:
        return tuple(_single(rand, field.kind, version) for _ in range(rand.randrange(4)))
    assert get_origin(hint) is None or get_args(hint)
    return _single(rand, field.kind, version)


def _single(rand: random.Random, kind: str | type, version: int) -> object:
    if not isinstance(kind, str):
        return random_record(rand, kind, version)
    match kind:
        case "string":
            return "".join(rand.choice("aé-λ0") for _ in range(rand.randrange(200)))
        case "bool":
            return rand.random() < 0.5
        case "float64":
            return rand.random() * 1e9
        case "uuid":
            return TopicId(rand.randbytes(16))
        case "bytes":
            return rand.randbytes(rand.randrange(150))
        case _:
            number = rand.getrandbits(_BITS[kind])
            return -number if kind != "uint16" and rand.random() < 0.3 else number


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
def test_every_record_is_read_as_it_was_written(cls: type[MetadataRecord], version: int) -> None:
    for seed in range(20):
        record = ApiMessageAndVersion(random_record(random.Random(seed), cls, version), version)
        assert decode_record(encode_record(record)) == record


def test_the_bytes_are_kafkas() -> None:
    """Kafka 4.1 writes this record of 23 bytes into bootstrap.checkpoint."""
    record = newest(FeatureLevelRecord(name="metadata.version", feature_level=27))
    assert encode_record(record) == b"\x01\x0c\x00\x11metadata.version\x00\x1b\x00"


def test_kafka_4_1_has_these_types() -> None:
    assert len(RECORD_TYPES) == 26
    assert RECORD_TYPES.keys() == {*range(29)} - {6, 13, 16}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "ends within its frame"),
        (b"\x01\x0c", "ends within its frame"),
        (b"\x02\x14\x00\x00", "frame version 2"),
        (b"\x01\x63\x00\x00", "no metadata record of type 99"),
        (b"\x01\x14\x07\x00", "NoOpRecord has version 7"),
    ],
)
def test_records_of_a_newer_kafka_are_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        decode_record(content)


def test_a_field_that_a_version_lacks_is_not_dropped() -> None:
    record = PartitionRecord(directories=(TopicId(bytes(16)),))
    with pytest.raises(UnsupportedInVersion):
        encode_record(ApiMessageAndVersion(record, 0))
    assert decode_record(encode_record(newest(NoOpRecord()))) == newest(NoOpRecord())
