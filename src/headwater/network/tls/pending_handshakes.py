"""Accepted connections whose TLS handshake is in progress.

They count for the limits of their listener and address meanwhile, so that clients that connect and
send nothing only use up their own limits. These limits bound their number, and
`headwater.tls.handshake.timeout.ms` their duration.
"""

import logging
import socket
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from headwater.common.exceptions import TlsRefused
from headwater.common.principal import Principal
from headwater.network.event_loop import Loop
from headwater.network.request_service import ClientAddress
from headwater.network.tls.tls_channel import TlsTransportLayer
from headwater.network.tls.tls_endpoints import ListenerTls
from headwater.network.tls.tls_handshake import Handshake

_log = logging.getLogger(__name__)


class _UnderWay(NamedTuple):
    handshake: Handshake
    address: ClientAddress
    since_ms: int


class PendingHandshakes:
    """The pending handshakes of one server. Only for the loop's thread."""

    def __init__(
        self,
        loop: Loop,
        *,
        timeout_ms: int,
        agreed: Callable[[TlsTransportLayer, ClientAddress, Principal], None],
        departed: Callable[[ClientAddress], None],
    ) -> None:
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._agreed = agreed
        self._departed = departed
        self._under_way: dict[int, _UnderWay] = {}
        self.failed_counts: Counter[str] = Counter()
        """Failed handshakes by listener."""

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(
        self, accepted: socket.socket, tls: ListenerTls, address: ClientAddress, now_ms: int
    ) -> None:
        """Take over a socket, or raise `OSError` and leave it."""
        channel = tls.accept(accepted)
        fd = channel.fileno()
        handshake = Handshake(
            self._loop,
            channel,
            done=lambda: self._done(fd, tls),
            failed=lambda lost: self._fail(fd, str(lost)),
        )
        handshake.begin()
        self._under_way[fd] = _UnderWay(handshake, address, now_ms)

    def sweep(self, now_ms: int) -> None:
        """Fail handshakes that took too long."""
        late = [
            fd for fd, each in self._under_way.items() if now_ms - each.since_ms >= self._timeout_ms
        ]
        for fd in late:
            self._fail(fd, "handshake timed out")

    def close(self) -> None:
        for fd in list(self._under_way):
            self._drop(fd)

    def _done(self, fd: int, tls: ListenerTls) -> None:
        each = self._under_way[fd]
        channel = each.handshake.channel
        try:
            principal = tls.principal(channel)
        except TlsRefused as refused:
            self._fail(fd, str(refused))
            return
        del self._under_way[fd]
        self._agreed(channel, each.address, principal)

    def _fail(self, fd: int, why: str) -> None:
        address = self._under_way[fd].address
        self.failed_counts[address.listener] += 1
        _log.info("TLS handshake failed: client=%s reason=%s", address, why)
        self._drop(fd)

    def _drop(self, fd: int) -> None:
        each = self._under_way.pop(fd)
        each.handshake.cancel()
        each.handshake.channel.close()
        self._departed(each.address)
