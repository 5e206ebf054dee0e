"""Close connections without losing the last responses.

Used when this side closes: the broker stops, or authentication failed. Closing a socket while the
peer still sends makes the kernel reset the connection, and the peer may never read the last
responses; a producer would send again what is in the log already. So only our direction is shut
down, and received bytes are discarded until the peer closes or a timeout passes.

Until then the connection counts for its address: otherwise clients that fail authentication could
hold any number of file descriptors.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from headwater.common.exceptions import ConnectionLost
from headwater.network.event_loop import Loop
from headwater.network.limits.idle_expiry import CoarseClock
from headwater.network.request_service import ClientAddress
from headwater.network.transport_layer import TransportLayer

_ROOM_BYTES = 65_536

CLOSE_TIMEOUT_MS: Final = 5_000
"""Connections that the peer has not closed by then are closed."""


class _Closing(NamedTuple):
    address: ClientAddress
    since_ms: int


class ClosingConnections:
    """Channels that are shut down for sending, in order.

    `close` closes each of them, once, and `emptied` is called after the last.
    """

    def __init__(
        self,
        loop: Loop,
        clock: CoarseClock,
        *,
        close: Callable[[TransportLayer, ClientAddress], None],
        on_empty: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._close = close
        self._on_empty = on_empty
        self._room = memoryview(bytearray(_ROOM_BYTES))
        self._channels: dict[TransportLayer, _Closing] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def close_gracefully(self, channel: TransportLayer, address: ClientAddress) -> None:
        """Take over a channel on which everything was sent, and close it later."""
        try:
            channel.end_sending()
        except ConnectionLost:
            self._close(channel, address)
            return
        self._channels[channel] = _Closing(address, self._clock.now_ms)
        self._loop.add_reader(channel.fileno(), partial(self._discard, channel))

    def sweep(self, now_ms: int) -> None:
        """Close channels whose peer took too long."""
        for channel, closing in list(self._channels.items()):
            if now_ms - closing.since_ms < CLOSE_TIMEOUT_MS:
                return
            self._end(channel)

    def close(self) -> None:
        """Close all channels now."""
        for channel in list(self._channels):
            self._end(channel)

    def _discard(self, channel: TransportLayer) -> None:
        try:
            count = channel.receive_into(self._room)
        except ConnectionLost:
            count = 0
        if count == 0:
            self._end(channel)

    def _end(self, channel: TransportLayer) -> None:
        address = self._channels.pop(channel).address
        self._loop.remove_reader(channel.fileno())
        self._close(channel, address)
        if not self._channels:
            self._on_empty()
