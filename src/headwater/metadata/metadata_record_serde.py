"""Write and read the records of the metadata log (Kafka: MetadataRecordSerde).

uvarint  frame version, 1
uvarint  type of the record (its apiKey)
uvarint  version of the record
body     as a message of a flexible version
"""

from typing import Final, NamedTuple

from headwater.common.exceptions import ProtocolError
from headwater.metadata.metadata_records import (
    OLDEST_AND_NEWEST,
    RECORD_TYPES,
    MetadataRecord,
)
from headwater.protocol.primitives import read_uvarint, uvarint
from headwater.protocol.versioned_codec import VersionedCodec, codec_for

FRAME_VERSION: Final = 1

_NUMBERS: Final = {cls: number for number, cls in RECORD_TYPES.items()}


class ApiMessageAndVersion(NamedTuple):
    """A metadata record and the version that it is written in."""

    message: MetadataRecord
    version: int


def newest(message: MetadataRecord) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(message, OLDEST_AND_NEWEST[type(message)][1])


def encode_record(record: ApiMessageAndVersion) -> bytes:
    """The value of a log record.

    Raises UnsupportedInVersion if the version lacks a field that is set.
    """
    cls = type(record.message)
    content = bytearray()
    content += uvarint(FRAME_VERSION)
    content += uvarint(_NUMBERS[cls])
    content += uvarint(record.version)
    for part in _codec(cls, record.version).write(record.message):
        assert isinstance(part, bytes | bytearray | memoryview)
        content += part
    return bytes(content)


def decode_record(content: bytes | memoryview) -> ApiMessageAndVersion:
    """The record in the value of a log record.

    Raises ProtocolError if this version cannot read it.
    """
    view = memoryview(content)
    try:
        frame_version, position = read_uvarint(view, 0)
        number, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except IndexError as error:
        raise ProtocolError("a metadata record ends within its frame") from error
    if frame_version != FRAME_VERSION:
        raise ProtocolError(
            f"a metadata record has frame version {frame_version}; supported is {FRAME_VERSION}"
        )
    cls = RECORD_TYPES.get(number)
    if cls is None:
        raise ProtocolError(f"there is no metadata record of type {number}; a newer Kafka wrote it")
    oldest_version, newest_version = OLDEST_AND_NEWEST[cls]
    if not oldest_version <= version <= newest_version:
        raise ProtocolError(
            f"{cls.__name__} has version {version}; supported are {oldest_version} to "
            f"{newest_version}"
        )
    return ApiMessageAndVersion(_codec(cls, version).read(view[position:]), version)


def _codec(cls: type, version: int) -> VersionedCodec[MetadataRecord]:
    codec: VersionedCodec[MetadataRecord] = codec_for(cls, version, flexible=True)
    return codec
