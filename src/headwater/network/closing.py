"""Connections that we end although the peer would go on: a broker that stops, a login refused.

What a reader would get wrong: closing at once would undo the answers that were sent last. A peer
that still sends gets a reset then, gives up the connection, and never reads what had arrived; a
producer sends again what is in the log already. So we end our direction only, and throw away what
still comes, until the peer has read our end and hangs up, or nobody is patient any longer. Until
then it counts among the connections of its address: else strangers, who need only fail to log in,
could keep any number of descriptors.
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

PATIENCE_MS: Final = 5_000
"""Whoever has not hung up by then does not want to."""


class _Parting(NamedTuple):
    address: ClientAddress
    since_ms: int


class ClosingConnections:
    """Channels that have nothing more to say, in the order in which they came.

    `close` ends each of them, once, and `emptied` is called after the last.
    """

    def __init__(
        self,
        loop: Loop,
        clock: CoarseClock,
        *,
        close: Callable[[TransportLayer, ClientAddress], None],
        emptied: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._close = close
        self._emptied = emptied
        self._room = memoryview(bytearray(_ROOM_BYTES))
        self._channels: dict[TransportLayer, _Parting] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def part(self, channel: TransportLayer, address: ClientAddress) -> None:
        """Take over a channel on which everything was sent, and see it to its end."""
        try:
            channel.end_sending()
        except ConnectionLost:
            self._close(channel, address)
            return
        self._channels[channel] = _Parting(address, self._clock.now_ms)
        self._loop.add_reader(channel.fileno(), partial(self._discard, channel))

    def sweep(self, now_ms: int) -> None:
        """Time has passed: whoever stays too long is closed."""
        for channel, parting in list(self._channels.items()):
            if now_ms - parting.since_ms < PATIENCE_MS:
                return
            self._end(channel)

    def close(self) -> None:
        """Wait for nobody any longer."""
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
            self._emptied()
