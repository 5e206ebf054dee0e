"""Connections that came sooner than a quota allows: they are kept for a while, and then closed.

What a reader would get wrong: closing one at once would be no help. Its peer would be back within
a moment, and the broker would do nothing but accept. So the peer is left to wait for an answer to
what it has sent. Kafka does this (KIP-612).
"""

import socket
from collections import deque
from typing import Final, Protocol

MOST: Final = 1_000
"""Beyond that the longest kept makes way, since descriptors are few."""


class ConnectionQuota(Protocol):
    """Who says how often an address may connect."""

    def throttle_ms(self, host: str, now_ms: int) -> int:
        """0 for one that is welcome, else for how long to keep it waiting."""


class ThrottledConnections:
    """Sockets that nobody will serve, in the order in which they came."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
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
        """Time has passed. One that comes later may be due earlier, by less than a sample."""
        while self._sockets and self._sockets[0][0] <= now_ms:
            self._sockets.popleft()[1].close()

    def close(self) -> None:
        while self._sockets:
            self._sockets.popleft()[1].close()
