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

from headwater.common.exceptions import ConnectionLost, TlsHandshakeFailed
from headwater.common.principal import Principal
from headwater.network.acceptor import Acceptor
from headwater.network.event_loop import Loop
from headwater.network.request_service import ClientAddress
from headwater.network.tls.tls_channel import TlsTransportLayer
from headwater.network.tls.tls_endpoints import ListenerTls
from headwater.network.tls.tls_handshake import Handshake

_log = logging.getLogger(__name__)


class _FairHandshake(Handshake):
    """A handshake that takes turns with connections, as a step may take long."""

    __slots__ = ("_fair", "_first_tag_ns", "_is_queued", "_listener", "tag_ns")

    def __init__(
        self,
        loop: Loop,
        channel: TlsTransportLayer,
        listener: Acceptor,
        *,
        done: Callable[[], None],
        failed: Callable[[ConnectionLost], None],
    ) -> None:
        super().__init__(loop, channel, done=done, failed=failed)
        self._listener = listener
        self._fair = listener.fair_queue
        self._first_tag_ns = self.tag_ns = self._fair.first_tag_ns(listener.tag_ns)
        self._is_queued = False

    def cancel(self) -> None:
        """Stop, and charge the acceptor for the handshake.

        The connection itself starts without debt.
        """
        if not self._is_over:
            self._listener.charge_short_lived(self.tag_ns - self._first_tag_ns)
        super().cancel()

    def take_turn(self) -> None:
        """Called by the fair queue."""
        self._is_queued = False
        self._step()

    def _go(self) -> None:
        if not self._is_queued and not self._is_over:
            if self._fair.admits(self):
                self._step()
            else:
                self._is_queued = True

    def _step(self) -> None:
        began_ns = self._fair.now_ns()
        super()._go()
        self._fair.charge(self, self._fair.now_ns() - began_ns)


class _PendingHandshake(NamedTuple):
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
        on_done: Callable[[TlsTransportLayer, ClientAddress, Principal], None],
        on_failed: Callable[[ClientAddress], None],
    ) -> None:
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._on_done = on_done
        self._on_failed = on_failed
        self._pending: dict[int, _PendingHandshake] = {}
        self.failed_counts: Counter[str] = Counter()
        """Failed handshakes by listener."""

    def __len__(self) -> int:
        return len(self._pending)

    def begin(
        self,
        accepted: socket.socket,
        tls: ListenerTls,
        address: ClientAddress,
        listener: Acceptor,
        now_ms: int,
    ) -> None:
        """Take over a socket, or raise `OSError` and leave it."""
        channel = tls.accept(accepted)
        fd = channel.fileno()
        handshake = _FairHandshake(
            self._loop,
            channel,
            listener,
            done=lambda: self._done(fd, tls),
            failed=lambda lost: self._fail(fd, str(lost)),
        )
        handshake.begin()
        self._pending[fd] = _PendingHandshake(handshake, address, now_ms)

    def sweep(self, now_ms: int) -> None:
        """Fail handshakes that took too long."""
        late = [
            fd for fd, each in self._pending.items() if now_ms - each.since_ms >= self._timeout_ms
        ]
        for fd in late:
            self._fail(fd, "handshake timed out")

    def close(self) -> None:
        for fd in list(self._pending):
            self._drop(fd)

    def _done(self, fd: int, tls: ListenerTls) -> None:
        each = self._pending[fd]
        channel = each.handshake.channel
        try:
            principal = tls.principal(channel)
        except TlsHandshakeFailed as refused:
            self._fail(fd, str(refused))
            return
        del self._pending[fd]
        self._on_done(channel, each.address, principal)

    def _fail(self, fd: int, why: str) -> None:
        address = self._pending[fd].address
        self.failed_counts[address.listener] += 1
        _log.info("TLS handshake failed: client=%s reason=%s", address, why)
        self._drop(fd)

    def _drop(self, fd: int) -> None:
        each = self._pending.pop(fd)
        each.handshake.cancel()
        each.handshake.channel.close()
        self._on_failed(each.address)
