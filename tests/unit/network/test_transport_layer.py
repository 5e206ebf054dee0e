"""The plain channel on real sockets and real files."""

import socket
from pathlib import Path

import pytest

from headwater.common.exceptions import ConnectionLost
from headwater.network.transport_layer import PlaintextTransportLayer


def test_not_now_is_told_from_the_end_and_from_a_loss() -> None:
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


def test_a_file_that_sendfile_cannot_take_is_copied() -> None:
    """Some file systems cannot feed sendfile; files of /proc never can."""
    ours, theirs = socket.socketpair()
    channel = PlaintextTransportLayer(ours)
    with Path("/proc/self/cmdline").open("rb") as odd:
        content = odd.read()
        assert channel.send_file(odd.fileno(), 0, 5) == 5
        assert theirs.recv(10) == content[:5]
        assert channel.send_file(odd.fileno(), len(content), 5) == 0
    channel.close()
    theirs.close()
