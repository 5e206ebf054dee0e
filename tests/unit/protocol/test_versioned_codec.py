"""Kafka's encodings, byte by byte."""

import subprocess
import sys

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.common.ids import TopicId
from headwater.protocol.codec import encode, read, request_class, write_response
from headwater.protocol.messages.heartbeat import HeartbeatResponse
from headwater.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headwater.protocol.primitives import read_uvarint, uvarint
from headwater.protocol.schema import many, one, protocol_message
from headwater.protocol.versioned_codec import VersionedCodec, codec_for
from tests.unit.protocol.bytes_of import joined, read_bytes


@protocol_message
class Inner:
    value: int = one("int16", default=0)


@protocol_message
class Outer:
    name: str | None = one("string", default="", nullable_since=0)
    inner: Inner | None = one(Inner, default=None, nullable_since=0)
    ids: tuple[TopicId, ...] = many("uuid", default=())
    level: int = one("int8", default=7, tag=3)
    words: tuple[str, ...] | None = many("string", default=(), nullable_since=0, tag=1)


OUTER: VersionedCodec[Outer] = codec_for(Outer, 0, flexible=True)


def outer(body: str) -> Outer:
    return OUTER.read(memoryview(bytes.fromhex(body)))


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (Outer(), "01 ff 01 00"),
        (Outer(name=None), "00 ff 01 00"),
        (Outer(name="é"), "03 c3a9 ff 01 00"),
        (Outer(inner=Inner(value=-2)), "01 01 fffe 00 01 00"),
        (Outer(ids=(TopicId(b"i" * 16),)), "01 ff 02" + "69" * 16 + "00"),
        (Outer(level=8), "01 ff 01 01 03 01 08"),
        (Outer(level=8, words=("a",)), "01 ff 01 02 01 03 02 0261 03 01 08"),
        (Outer(words=None), "01 ff 01 01 01 01 00"),
    ],
)
def test_flexible_versions(message: Outer, body: str) -> None:
    """Lengths are plus one, null is 0, tags ascend, default tags are omitted."""
    assert joined(OUTER.write(message)) == bytes.fromhex(body)
    assert outer(body) == message


def test_unknown_tags_are_skipped_and_known_ones_may_come_in_any_order() -> None:
    assert outer("01 ff 01 03 05 02 abcd 03 01 08 01 01 01") == Outer(level=8, words=())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("01 ff 01 01 03 02 08 00", "wrong size"),
        ("01 ff 01 01 05 7f", "overruns"),
        ("01 ff 00 00", "null"),
        ("01 ff 01 01", "ends before"),
        ("", "ends before"),
        ("05 61", "longer than the message"),
        ("80808080 80", "varint"),
        ("ffffffff 7f", "varint"),
        ("01 ff 03" + "69" * 16, "more elements"),
    ],
)
def test_malformed_bytes_are_rejected(body: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        outer(body)


def test_too_long_string_is_rejected_and_never_written() -> None:
    longest = "x" * 32767
    assert OUTER.read(memoryview(joined(OUTER.write(Outer(name=longest))))).name == longest
    with pytest.raises(ValueError, match="32768"):
        OUTER.write(Outer(name=longest + "x"))
    body = uvarint(32769) + b"x" * 32768 + bytes.fromhex("ff 01 00")
    with pytest.raises(ProtocolError, match="string"):
        OUTER.read(memoryview(body))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**21, 2**31 - 1, 2**32 - 1])
def test_varints_survive_a_round_trip(value: int) -> None:
    encoded = memoryview(b"\xff" + uvarint(value) + b"\xff")
    assert read_uvarint(encoded, 1) == (value, len(encoded) - 1)


def test_any_negative_length_is_null_as_in_kafka() -> None:
    assert read_bytes(MetadataRequest, 1, b"\x80\0\0\0").topics is None


def test_invalid_utf8_is_read_with_replacement_characters() -> None:
    """As in Kafka; the name will not be found, and the connection stays open."""
    request = read_bytes(MetadataRequest, 1, b"\0\0\0\1" + b"\0\2a\xff")
    assert request.topics is not None
    assert request.topics[0].name == "a\ufffd"


def test_unknown_error_code_is_unknown_server_error() -> None:
    """A client may be connected to a newer broker."""
    response = read_bytes(HeartbeatResponse, 0, b"\x7f\xff")
    assert response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", [-1, 14])
def test_unknown_version_is_rejected(version: int) -> None:
    with pytest.raises(ProtocolError, match="no version"):
        read(MetadataRequest, version, memoryview(b""))


def test_unknown_api_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="no API 999"):
        request_class(999)


def test_cached_response_is_sent_as_it_is() -> None:
    kept = encode(MetadataResponse(cluster_id="c"), 9)
    assert write_response(kept, 9) == [kept.body]


def test_importing_the_package_imports_no_message() -> None:
    """A broker must start in half a second; each message module costs some milliseconds."""
    script = (
        "import sys, headwater.protocol.headers, headwater.protocol.codec\n"
        "names = [name for name in sys.modules if "
        "name.startswith('headwater.protocol.messages.')]\n"
        "assert not names, names\n"
        "assert 'kio' not in sys.modules and 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
