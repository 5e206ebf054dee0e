"""Accept connections on one listening socket (Acceptor).

Note: running out of file descriptors must not cause a busy loop. A connection that cannot be
accepted stays in the backlog, and the socket stays readable. So each acceptor reserves one
descriptor: it is closed for a moment to accept and close the connection, and the acceptor then
pauses until the next sweep.

An acceptor shares the loop's time with the connections (`fair_queue`): in its turn it accepts for
about a millisecond, and further connections wait in the backlog.
"""

import errno
import logging
import os
import socket
from collections.abc import Callable

from headwater.common.exceptions import CannotListen
from headwater.network.endpoint import Endpoint
from headwater.network.event_loop import Loop
from headwater.network.limits.connection_quotas import plain_address
from headwater.network.limits.fair_queue import HALF_CREDIT_NS, SHARE_NS, FairQueue
from headwater.network.network_settings import NetworkSettings

_ACCEPTS_PER_TURN = 32

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_NO_MEMORY = (errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)

# Takes ownership of an accepted socket, with the peer's address and port.
OnAccepted = Callable[[socket.socket, str, int], None]


class Acceptor:
    """Accepts connections between `start` and `close`, except while it pauses."""

    def __init__(
        self,
        endpoint: Endpoint,
        listening: socket.socket,
        loop: Loop,
        *,
        fair_queue: FairQueue,
        may_accept: Callable[[], bool],
        on_accepted: OnAccepted,
    ) -> None:
        self._socket = listening
        self._fd = listening.fileno()
        self._loop = loop
        self.fair_queue = fair_queue
        self.tag_ns = fair_queue.first_tag_ns(0)
        self._is_queued = False
        self._may_accept = may_accept
        self._on_accepted = on_accepted
        self._reserve: int | None = _reserve()
        self._is_accepting = False
        self.is_paused = False
        self.is_closed = False
        host, port = listening.getsockname()[:2]
        # The actual port, and the resolved address; an empty host stays empty.
        self.endpoint = Endpoint(name=endpoint.name, host=host if endpoint.host else "", port=port)

    def start(self) -> None:
        if not (self._is_accepting or self.is_closed):
            self._is_accepting = True
            self.is_paused = False
            self._loop.add_reader(self._fd, self._on_acceptable)

    def sweep(self) -> None:
        """Resume accepting after a pause."""
        if self.is_paused:
            if self._reserve is None:
                self._reserve = _reserve()
            self.start()

    def close(self) -> None:
        """Close the socket. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._fd)
        self._socket.close()
        if self._reserve is not None:
            os.close(self._reserve)

    def _pause(self) -> None:
        self.is_paused = True
        self._is_accepting = False
        self._loop.remove_reader(self._fd)

    def charge_short_lived(self, used_ns: int) -> None:
        """Charge for a connection that closed soon after it was accepted.

        `used_ns` is in the queue's virtual time, which also passes while a connection is idle, so
        only a part of it counts.
        """
        self.tag_ns = self.fair_queue.first_tag_ns(self.tag_ns) + min(used_ns, HALF_CREDIT_NS)

    def take_turn(self) -> None:
        """Called by the fair queue."""
        self._is_queued = False
        if self._is_accepting and not self.is_closed:
            self._accept()

    def _on_acceptable(self) -> None:
        # The loop calls again while connections are in the backlog.
        if not self._is_queued:
            if self.fair_queue.admits(self):
                self._accept()
            else:
                self._is_queued = True

    def _accept(self) -> None:
        fair = self.fair_queue
        began_ns = fair.now_ns()
        self._accept_until(began_ns + SHARE_NS)
        fair.charge(self, fair.now_ns() - began_ns)

    def _accept_until(self, until_ns: int) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if self.is_closed:
                return
            if not self._may_accept():
                self._pause()
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTOR or error.errno in _NO_MEMORY:
                    self._reject_first(error)
                    return
                # The connection failed while it was in the backlog; Linux reports it here.
                _log.debug(
                    "Connection failed before it was accepted: listener=%s error=%s", self, error
                )
                continue
            self._on_accepted(accepted, plain_address(address[0]), address[1])
            if self.fair_queue.now_ns() >= until_ns:
                return

    def _reject_first(self, error: OSError) -> None:
        """Close the first connection in the backlog, so that it does not hang; pause."""
        if self._reserve is not None and error.errno in _NO_DESCRIPTOR:
            os.close(self._reserve)
            try:
                self._socket.accept()[0].close()
            except (BlockingIOError, InterruptedError):
                # Linux needs a free descriptor even to report an empty backlog.
                return
            except OSError as again:
                _log.debug(
                    "Could not close a connection of the backlog: listener=%s error=%s", self, again
                )
            finally:
                self._reserve = _reserve()
        _log.warning(
            "Not accepting connections until the next sweep: listener=%s error=%s", self, error
        )
        self._pause()

    def __str__(self) -> str:
        return str(self.endpoint)


def listening_socket(
    endpoint: Endpoint, settings: NetworkSettings, *, both_families: bool
) -> socket.socket:
    """Bind and listen. Resolves a host name and may block: only for startup.

    `both_families` lets an IPv6 wildcard address accept IPv4 as well.
    """
    try:
        if not endpoint.host:
            return _on_all_interfaces(endpoint, settings, both_families=both_families)
        found = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        return _bind(family, address, settings, both_families=both_families)
    except OSError as error:
        raise CannotListen(f"cannot listen on {endpoint}: {error.strerror or error}") from error


def _on_all_interfaces(
    endpoint: Endpoint, settings: NetworkSettings, *, both_families: bool
) -> socket.socket:
    try:
        address = ("::", endpoint.port)
        return _bind(socket.AF_INET6, address, settings, both_families=both_families)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        # A machine without IPv6.
        return _bind(socket.AF_INET, ("0.0.0.0", endpoint.port), settings, both_families=False)


def _bind(
    family: int, address: tuple[object, ...], settings: NetworkSettings, *, both_families: bool
) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        # A restarted broker must not wait for old connections in TIME_WAIT.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both_families)
        if settings.socket_receive_buffer_bytes >= 0:
            # Set before listening: the advertised window depends on it.
            listening.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, settings.socket_receive_buffer_bytes
            )
        listening.bind(address)
        listening.listen(settings.socket_listen_backlog_size)
    except BaseException:
        listening.close()
        raise
    return listening


def set_options(connected: socket.socket, settings: NetworkSettings) -> None:
    """Set the options of an accepted or outgoing connection."""
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.socket_send_buffer_bytes >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.socket_send_buffer_bytes)
    if settings.socket_receive_buffer_bytes >= 0:
        connected.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, settings.socket_receive_buffer_bytes
        )


def _reserve() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
