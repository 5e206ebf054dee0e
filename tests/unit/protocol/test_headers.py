"""Request and response headers."""

import struct

import pytest

from headwater.common.exceptions import ProtocolError
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.headers import (
    read_correlation_id,
    read_request_header,
    request_frame,
    response_body_position,
    response_frame,
)
from headwater.protocol.primitives import uvarint
from headwater.protocol.send_parts import FileSlot

METADATA = APIS[ApiKey.METADATA]
API_VERSIONS = APIS[ApiKey.API_VERSIONS]


def request(key: int, version: int, client_id: bytes, rest: bytes = b"") -> memoryview:
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (77).to_bytes(4, "big")
    return memoryview(bytearray(head + client_id + rest))


def test_non_flexible_header_has_no_tagged_fields() -> None:
    header = read_request_header(request(3, 8, b"\0\3abc", b"body"))
    assert header == (METADATA, 8, 77, "abc", 13)


def test_tagged_fields_of_a_flexible_header_are_skipped() -> None:
    tags = b"\2" + b"\0\1x" + b"\5\2yz"
    header = read_request_header(request(3, 9, b"\0\3abc", tags + b"body"))
    assert header == (METADATA, 9, 77, "abc", 13 + len(tags))


def test_a_null_client_id_is_empty() -> None:
    """As in Kafka."""
    assert read_request_header(request(3, 0, b"\xff\xff")).client_id == ""


def test_client_id_with_invalid_utf8_has_replacement_characters() -> None:
    """As in Kafka; such a client must not be disconnected."""
    assert read_request_header(request(3, 0, b"\0\2a\xff")).client_id == "a\ufffd"


@pytest.mark.parametrize(
    "frame",
    [
        request(3, 0, b"\0\5abc"),
        request(3, 9, b"\0\0"),
        request(3, 9, b"\0\0", b"\1"),
        request(3, 9, b"\0\0", b"\1\0\x7f"),
        request(3, 0, b"\0"),
        memoryview(b""),
    ],
    ids=["client id", "no tags", "no tag", "tag too long", "no client id", "empty"],
)
def test_truncated_request_header_is_rejected(frame: memoryview) -> None:
    with pytest.raises(ProtocolError):
        read_request_header(frame)


@pytest.mark.parametrize(
    ("key", "version"), [(3, 14), (2, 0), (54, 2), (76, 0), (-1, 0), (0, 2), (3, -1)]
)
def test_unknown_api_or_version_is_rejected(key: int, version: int) -> None:
    """Also Produce 0 to 2, which are announced but not served (KAFKA-18659)."""
    frame = request(key & 0xFFFF, version & 0xFFFF, b"\0\0", b"\0")
    with pytest.raises(ProtocolError, match=r"no API|no version"):
        read_request_header(frame)


def test_unknown_version_of_api_versions_is_accepted() -> None:
    assert read_request_header(request(18, 99, b"\0\0", b"\0")).version == 99


@pytest.mark.parametrize(
    ("key", "version", "head"),
    [
        (ApiKey.METADATA, 8, "00000007 0000002a"),
        (ApiKey.METADATA, 9, "00000008 0000002a 00"),
        (ApiKey.API_VERSIONS, 3, "00000007 0000002a"),
    ],
)
def test_a_response_header_has_tags_if_flexible_but_never_for_api_versions(
    key: ApiKey, version: int, head: str
) -> None:
    first, second = response_frame(APIS[key], version, 42, [b"abc"])
    assert first == bytes.fromhex(head)
    assert second == b"abc"
    frame = memoryview(bytes.fromhex(head)[4:] + b"abc")
    assert read_correlation_id(frame) == 42
    assert bytes(frame[response_body_position(APIS[key], version, frame) :]) == b"abc"


class _Slot:
    length = 1000


def test_file_ranges_count_in_the_frame_size() -> None:
    slot: FileSlot = _Slot()
    head, *body = response_frame(METADATA, 0, 1, [b"abc", slot])
    assert head == (4 + 3 + 1000).to_bytes(4, "big") + (1).to_bytes(4, "big")
    assert body == [b"abc", slot]


@pytest.mark.parametrize("version", [8, 9])
def test_request_frame_is_readable(version: int) -> None:
    head, body = request_frame(METADATA, version, 5, "é", [b"abc"])
    assert isinstance(head, bytes)
    assert isinstance(body, bytes)
    frame = memoryview(head + body)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = read_request_header(frame[4:])
    assert (header.api, header.version, header.correlation_id) == (METADATA, version, 5)
    assert header.client_id == "é"
    assert bytes(frame[4:][header.body_position :]) == b"abc"


def test_truncated_response_header_is_rejected() -> None:
    with pytest.raises(ProtocolError):
        read_correlation_id(memoryview(b"\0\0\0"))
    with pytest.raises(ProtocolError):
        response_body_position(METADATA, 9, memoryview(b"\0\0\0\1"))


def test_header_with_a_thousand_tagged_fields_is_rejected_before_reading_them() -> None:
    """With two bytes each, they would block the event loop for long."""
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, 0)
    with pytest.raises(ProtocolError, match="1001 tagged fields"):
        read_request_header(memoryview(head + uvarint(1_001)))
    fields = b"".join(uvarint(tag) + b"\0" for tag in range(1_000))
    frame = memoryview(head + uvarint(1_000) + fields)
    assert read_request_header(frame).body_position == len(frame)
