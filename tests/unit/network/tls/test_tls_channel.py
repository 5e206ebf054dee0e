"""The TLS channel when its socket is full: nothing is lost or sent twice."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.network.tls.ssl_context import client_context, listener_context
from headwater.network.tls.tls_channel import SCRATCH_BYTES, TlsTransportLayer
from tests.unit.network.tls.tls_lab import CLIENT, listener_settings

CONTENT = os.urandom(3_000_000)
Offer = Callable[[TlsTransportLayer, int], int | None]


@pytest.fixture
def from_file(tmp_path: Path) -> Iterator[Offer]:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    with path.open("rb") as file:
        yield lambda channel, position: channel.send_file(
            file.fileno(), position, min(1_000_000, len(CONTENT) - position)
        )


def from_memory(channel: TlsTransportLayer, position: int) -> int | None:
    offered = memoryview(CONTENT)[position : position + 300_000]
    return channel.send([offered[:10], offered[10:]], more=False)


def exchanged(offer: Offer) -> tuple[bytes, int]:
    """Return what arrives at the other end, and how often the socket was full."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    channel = TlsTransportLayer(ours, listener_context(listener_settings()), scratch)
    client = TlsTransportLayer(theirs, client_context(CLIENT), scratch, server_name="127.0.0.1")
    while not (client.handshake() & channel.handshake()):
        pass
    received = bytearray()
    room = memoryview(bytearray(50_000))
    position = full = 0
    try:
        while len(received) < len(CONTENT):
            sent = offer(channel, position) if position < len(CONTENT) else None
            full += sent is None
            position += sent or 0
            received += room[: client.receive_into(room) or 0]
        assert client.receive_into(room) is None
    finally:
        channel.close()
        client.close()
    return bytes(received), full


def test_unsent_data_is_sent_later_and_not_encrypted_twice(from_file: Offer) -> None:
    for offer in (from_memory, from_file):
        received, full = exchanged(offer)
        assert received == CONTENT
        assert full > 10, "the socket was never full, so this proves nothing"
