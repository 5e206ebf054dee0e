"""Frames that no client should send."""

import struct

from headwater.protocol.messages.metadata import MetadataRequest
from tests.peers.lab import Lab
from tests.peers.raw_client import ConnectionClosed

_SHOWN_BYTES = 40


def _show(lab: Lab, label: str, content: bytes) -> None:
    try:
        lab.client.send_bytes(content)
        frame = lab.client.receive()
    except ConnectionClosed:
        lab.note(label, "closed")
    else:
        # Long answers tell of the broker, which other scenarios look at.
        lab.note(label, bytes(frame).hex() if len(frame) <= _SHOWN_BYTES else "answered")
    lab.client.close()


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _header(api: int, version: int, client_id: bytes = b"\0\1x") -> bytes:
    return struct.pack(">hhi", api, version, 7) + client_id


def broken_frames(lab: Lab) -> None:
    for label, content in (
        ("negative size", struct.pack(">i", -1)),
        ("too large", struct.pack(">i", 2_000_000_000)),
        ("empty", _frame(b"")),
        ("half a header", _frame(b"\0\x12\0")),
        ("no such API", _frame(_header(999, 0))),
        ("negative API", _frame(_header(-1, 0))),
        ("a removed API", _frame(_header(4, 7) + b"\0")),
        ("a controller's API", _frame(_header(62, 0) + b"\0")),
        ("version too new", _frame(_header(3, 99))),
        ("version too old", _frame(_header(1, 0))),
        ("negative version", _frame(_header(3, -1))),
        ("Produce 2", _frame(_header(0, 2) + struct.pack(">hii", 1, 1000, 0))),
        ("an unstable version", _frame(_header(22, 6) + b"\0\0\0\0\0\0\0")),
        ("a body cut short", _frame(_header(3, 1) + b"\0\0")),
        ("an array of minus two", _frame(_header(3, 1) + struct.pack(">i", -2))),
        ("an array of millions", _frame(_header(3, 1) + struct.pack(">i", 2**31 - 1))),
        ("bytes after the body", _frame(_header(18, 0) + b"xyz")),
        ("a client id too long", _frame(_header(18, 0, b"\x7f\xffx"))),
        ("SaslHandshake", _frame(_header(17, 1) + b"\0\5PLAIN")),
    ):
        _show(lab, label, content)
    lab.show("others notice nothing", MetadataRequest(topics=()))


def api_versions_from_the_future(lab: Lab) -> None:
    """Answered in version 0 with error 35 and the range of ApiVersions itself."""
    _show(lab, "version 99", _frame(_header(18, 99) + b"\0\2a\2b\0"))
    _show(lab, "version 5, no body", _frame(_header(18, 5)))
    lab.show("then", MetadataRequest(topics=()))


def client_ids(lab: Lab) -> None:
    for label, client_id in (
        ("null", b"\xff\xff"),
        ("empty", b"\0\0"),
        ("not UTF-8", b"\0\2\xff\xfe"),
    ):
        # A coordinator of no type: an answer without anything of the broker's own.
        _show(lab, label, _frame(_header(23, 2, client_id) + b"\0\0\0\0"))
