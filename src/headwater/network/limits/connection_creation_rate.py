"""Delay connections above the connection creation rate of their address (KIP-612).

Note: they are held open for a while before they are closed, as in Kafka. Closing them at once would
not help: the client would reconnect immediately, and the broker would only be busy accepting.
"""

import socket
from collections import deque
from typing import Final, Protocol

CONNECTIONS_MAX: Final = 1_000
"""Above this number the oldest one is closed, since descriptors are limited."""


class ConnectionQuota(Protocol):
    """Limits how often an address may connect."""

    def throttle_ms(self, host: str, now_ms: int) -> int:
        """Return how long to delay a connection; 0 to accept it."""


class ThrottledConnections:
    """Delayed sockets, which are never served, in order of arrival."""

    def __init__(self, limit: int = CONNECTIONS_MAX) -> None:
        self._most = limit
        self._sockets: deque[tuple[int, socket.socket]] = deque()
        self.count = 0

    def __len__(self) -> int:
        return len(self._sockets)

    def add(self, held: socket.socket, until_ms: int) -> None:
        self.count += 1
        if len(self._sockets) >= self._most:
            self._sockets.popleft()[1].close()
        self._sockets.append((until_ms, held))

    def sweep(self, now_ms: int) -> None:
        """Close sockets that are due.

        A later one may be due slightly earlier, by less than a sample.
        """
        while self._sockets and self._sockets[0][0] <= now_ms:
            self._sockets.popleft()[1].close()

    def close(self) -> None:
        while self._sockets:
            self._sockets.popleft()[1].close()
