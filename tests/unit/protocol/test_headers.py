"""Headers of requests and responses: who asks what, and which question an answer belongs to."""

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


def test_a_header_of_the_old_kind_has_no_tagged_fields() -> None:
    header = read_request_header(request(3, 8, b"\0\3abc", b"body"))
    assert header == (METADATA, 8, 77, "abc", 13)


def test_tagged_fields_of_a_flexible_header_are_skipped() -> None:
    tags = b"\2" + b"\0\1x" + b"\5\2yz"
    header = read_request_header(request(3, 9, b"\0\3abc", tags + b"body"))
    assert header == (METADATA, 9, 77, "abc", 13 + len(tags))


def test_a_null_client_id_is_empty() -> None:
    """Kafka does this."""
    assert read_request_header(request(3, 0, b"\xff\xff")).client_id == ""


def test_a_client_id_that_is_no_utf8_is_read_with_replacement_characters() -> None:
    """Kafka does this, so such a client must not be cut off."""
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
def test_a_request_that_ends_within_its_header_is_refused(frame: memoryview) -> None:
    with pytest.raises(ProtocolError):
        read_request_header(frame)


@pytest.mark.parametrize(
    ("key", "version"), [(3, 14), (2, 0), (54, 2), (76, 0), (-1, 0), (0, 2), (3, -1)]
)
def test_an_unknown_api_or_version_is_refused(key: int, version: int) -> None:
    """Also Produce 0 to 2, which is announced but not served (KAFKA-18659)."""
    frame = request(key & 0xFFFF, version & 0xFFFF, b"\0\0", b"\0")
    with pytest.raises(ProtocolError, match=r"no API|no version"):
        read_request_header(frame)


def test_api_versions_of_the_future_passes_because_it_gets_an_answer() -> None:
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


def test_the_bytes_of_a_file_count_in_the_size() -> None:
    slot: FileSlot = _Slot()
    head, *body = response_frame(METADATA, 0, 1, [b"abc", slot])
    assert head == (4 + 3 + 1000).to_bytes(4, "big") + (1).to_bytes(4, "big")
    assert body == [b"abc", slot]


@pytest.mark.parametrize("version", [8, 9])
def test_our_own_requests_have_headers_that_we_read(version: int) -> None:
    head, body = request_frame(METADATA, version, 5, "é", [b"abc"])
    assert isinstance(head, bytes)
    assert isinstance(body, bytes)
    frame = memoryview(head + body)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = read_request_header(frame[4:])
    assert (header.api, header.version, header.correlation_id) == (METADATA, version, 5)
    assert header.client_id == "é"
    assert bytes(frame[4:][header.body_position :]) == b"abc"


def test_a_response_that_ends_within_its_header_is_refused() -> None:
    with pytest.raises(ProtocolError):
        read_correlation_id(memoryview(b"\0\0\0"))
    with pytest.raises(ProtocolError):
        response_body_position(METADATA, 9, memoryview(b"\0\0\0\1"))


def test_a_header_with_a_thousand_tagged_fields_is_refused_before_they_are_read() -> None:
    """Two bytes each, they would hold the loop for as long as the frame is large."""
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, 0)
    with pytest.raises(ProtocolError, match="1001 tagged fields"):
        read_request_header(memoryview(head + uvarint(1_001)))
    fields = b"".join(uvarint(tag) + b"\0" for tag in range(1_000))
    frame = memoryview(head + uvarint(1_000) + fields)
    assert read_request_header(frame).body_position == len(frame)
