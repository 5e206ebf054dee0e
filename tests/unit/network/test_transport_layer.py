"""The plaintext transport layer on real sockets and files."""

import socket
from pathlib import Path

import pytest

from headwater.common.exceptions import ConnectionLost
from headwater.network.transport_layer import PlaintextTransportLayer


def test_would_block_end_of_stream_and_loss_are_distinguished() -> None:
    ours, theirs = socket.socketpair()
    channel = PlaintextTransportLayer(ours)
    room = memoryview(bytearray(10))
    assert channel.receive_into(room) is None
    theirs.send(b"abc")
    assert channel.receive_into(room) == 3
    theirs.shutdown(socket.SHUT_WR)
    assert channel.receive_into(room) == 0
    while channel.send([bytes(100_000)], more=False) is not None:
        pass
    theirs.close()
    with pytest.raises(ConnectionLost):
        channel.send([b"x"], more=False)
    with pytest.raises(ConnectionLost), Path(__file__).open("rb") as file:
        channel.send_file(file.fileno(), 0, 1)
    channel.close()


def test_file_without_sendfile_support_is_copied() -> None:
    """Some file systems do not support sendfile; files of /proc never do."""
    ours, theirs = socket.socketpair()
    channel = PlaintextTransportLayer(ours)
    with Path("/proc/self/cmdline").open("rb") as odd:
        content = odd.read()
        assert channel.send_file(odd.fileno(), 0, 5) == 5
        assert theirs.recv(10) == content[:5]
        assert channel.send_file(odd.fileno(), len(content), 5) == 0
    channel.close()
    theirs.close()
