"""TransportLayer of a connection: receive, send, send a file, close.

TLS implements the same protocol in `tls_channel`.

Note: `None` means that the call would have blocked; a receive of 0 bytes means that the peer will
send no more. Every socket error is raised as `ConnectionLost`, never `OSError`.
"""

import errno
import os
import socket
from collections.abc import Sequence
from typing import Protocol

from headwater.common.exceptions import ConnectionLost
from headwater.records.batch_header import Buffer

# Errors of file systems that do not support sendfile.
_NO_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)

# How much is read at once without sendfile.
_COPY_BYTES = 65_536


class TransportLayer(Protocol):
    """A non-blocking stream of bytes in each direction."""

    def fileno(self) -> int:
        """The descriptor that the loop watches."""

    def receive_into(self, room: memoryview) -> int | None:
        """Return the bytes received; 0 at the end of the stream, None for none yet."""

    def send(self, buffers: Sequence[Buffer], *, more: bool) -> int | None:
        """Return the bytes sent; None if it would block. `more` announces further data."""

    def send_file(self, descriptor: int, position: int, length: int) -> int | None:
        """Like `send`, from a file; 0 if the file ends at `position`."""

    def end_sending(self) -> None:
        """Shut down sending; receiving still works."""

    def close(self) -> None:
        """Close the stream; called once."""


class PlaintextTransportLayer:
    """A transport layer without encryption."""

    __slots__ = ("_fd", "_socket")

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._fd = connected.fileno()

    def fileno(self) -> int:
        return self._fd

    def receive_into(self, room: memoryview) -> int | None:
        try:
            return self._socket.recv_into(room)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise ConnectionLost(f"receiving failed: {error}") from error

    def send(self, buffers: Sequence[Buffer], *, more: bool) -> int | None:
        try:
            if len(buffers) == 1 and not more:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers, (), socket.MSG_MORE if more else 0)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise ConnectionLost(f"sending failed: {error}") from error

    def send_file(self, descriptor: int, position: int, length: int) -> int | None:
        try:
            return os.sendfile(self._fd, descriptor, position, length)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            if error.errno in _NO_SENDFILE:
                return self._copy_file(descriptor, position, length)
            raise ConnectionLost(f"sending a file failed: {error}") from error

    def _copy_file(self, descriptor: int, position: int, length: int) -> int | None:
        try:
            content = os.pread(descriptor, min(length, _COPY_BYTES), position)
        except OSError as error:
            raise ConnectionLost(f"reading the file to send failed: {error}") from error
        return self.send([content], more=False) if content else 0

    def end_sending(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise ConnectionLost(f"shutdown failed: {error}") from error

    def close(self) -> None:
        self._socket.close()
