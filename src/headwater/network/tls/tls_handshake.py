"""The loop as a TLS channel's owner sees it, and the handshake before there is an owner.

What a reader would get wrong: with TLS "there is something to read" is not what the selector says
alone. Bytes that were received with others, and decrypted or not wait in the channel, would wait
for ever. So a watch stands in the loop's place: it also calls the reader when the channel has
something, and no connection knows of it.
"""

from collections.abc import Callable

from headwater.common.exceptions import ConnectionLost
from headwater.network.event_loop import Callback, Loop
from headwater.network.tls.tls_channel import TlsTransportLayer


class TlsWatch:
    """`headwater.network.event_loop.Loop` for whoever has this one channel."""

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
        """Call the reader soon once more, if it has left something, or had no time for it."""
        if self._channel.has_undelivered and self._reader is not None and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._fire)

    def _fire(self) -> None:
        self._is_due = False
        self._on_readable()


class Handshake:
    """One handshake on the loop. Exactly one of the two is called, unless it is cancelled."""

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
        """May raise `OSError` when the loop can watch no more descriptors."""
        self._loop.add_reader(self.channel.fileno(), self._go)
        # A client speaks first; a server may have been spoken to already.
        self._loop.call_soon(self._go)

    def cancel(self) -> None:
        """Leave the channel alone; its owner closes it. May be called again."""
        if not self._is_over:
            self._is_over = True
            self._loop.remove_reader(self.channel.fileno())
            self._loop.remove_writer(self.channel.fileno())

    def _go(self) -> None:
        if self._is_over:
            return
        try:
            is_done = self.channel.shake()
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
