"""TLS handshakes on the event loop, and read notifications for TLS channels.

Note: with TLS the selector alone does not tell whether there is something to read. Bytes that were
received earlier may be buffered in the channel. So `TlsWatch` stands in for the loop and also calls
the reader when the channel has buffered bytes; connections are unaware of it.
"""

from collections.abc import Callable

from headwater.common.exceptions import ConnectionLost
from headwater.network.event_loop import Callback, Loop
from headwater.network.tls.tls_channel import TlsTransportLayer


class TlsWatch:
    """`headwater.network.event_loop.Loop` for the owner of one TLS channel."""

    __slots__ = ("_channel", "_is_due", "_loop", "_reader")

    def __init__(self, loop: Loop, channel: TlsTransportLayer) -> None:
        self._loop = loop
        self._channel = channel
        self._reader: Callback | None = None
        self._is_due = False

    def add_reader(self, fd: int, callback: Callback, /) -> object:
        self._reader = callback
        self._remind()
        return self._loop.add_reader(fd, self._on_readable)

    def remove_reader(self, fd: int, /) -> bool:
        self._reader = None
        return self._loop.remove_reader(fd)

    def add_writer(self, fd: int, callback: Callback, /) -> object:
        return self._loop.add_writer(fd, callback)

    def remove_writer(self, fd: int, /) -> bool:
        return self._loop.remove_writer(fd)

    def call_soon(self, callback: Callback, /) -> object:
        return self._loop.call_soon(callback)

    def _on_readable(self) -> None:
        if self._reader is not None:
            self._reader()
            self._remind()

    def _remind(self) -> None:
        """Schedule the reader again, if the channel still has bytes."""
        if self._channel.has_undelivered and self._reader is not None and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._fire)

    def _fire(self) -> None:
        self._is_due = False
        self._on_readable()


class Handshake:
    """One handshake. Exactly one of the callbacks is called, unless it is cancelled."""

    __slots__ = ("_done", "_failed", "_is_over", "_is_writing", "_loop", "channel")

    def __init__(
        self,
        loop: Loop,
        channel: TlsTransportLayer,
        *,
        done: Callable[[], None],
        failed: Callable[[ConnectionLost], None],
    ) -> None:
        self._loop = loop
        self._done = done
        self._failed = failed
        self._is_writing = False
        self._is_over = False
        self.channel = channel

    def begin(self) -> None:
        """Start the handshake; may raise `OSError` if there are too many descriptors."""
        self._loop.add_reader(self.channel.fileno(), self._go)
        # A client sends first; a server may have received something already.
        self._loop.call_soon(self._go)

    def cancel(self) -> None:
        """Stop using the channel; its owner closes it. Idempotent."""
        if not self._is_over:
            self._is_over = True
            self._loop.remove_reader(self.channel.fileno())
            self._loop.remove_writer(self.channel.fileno())

    def _go(self) -> None:
        if self._is_over:
            return
        try:
            is_done = self.channel.handshake()
        except ConnectionLost as lost:
            self.cancel()
            self._failed(lost)
            return
        if is_done:
            self.cancel()
            self._done()
            return
        must_write = self.channel.has_unsent
        if must_write and not self._is_writing:
            self._loop.add_writer(self.channel.fileno(), self._go)
        elif self._is_writing and not must_write:
            self._loop.remove_writer(self.channel.fileno())
        self._is_writing = must_write
