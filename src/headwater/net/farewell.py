"""Connections that we end although the peer would go on: a broker that stops.

What a reader would get wrong: closing at once would undo the answers that were sent last. A peer
that still sends gets a reset then, gives up the connection, and never reads what had arrived; a
producer sends again what is in the log already. So we end our direction only, and throw away what
still comes, until the peer has read our end and hangs up, or nobody is patient any longer.
"""

from collections.abc import Callable
from functools import partial

from headwater.model.failures import ConnectionLost
from headwater.net.channel import Channel
from headwater.net.loop import Loop

_ROOM_BYTES = 65_536


class Farewells:
    """Channels that have nothing more to say. `emptied` is called when the last one is closed."""

    def __init__(self, loop: Loop, emptied: Callable[[], None]) -> None:
        self._loop = loop
        self._emptied = emptied
        self._room = memoryview(bytearray(_ROOM_BYTES))
        self._channels: dict[Channel, None] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def part(self, channel: Channel) -> None:
        """Take over a channel on which everything was sent, and see it to its end."""
        try:
            channel.end_sending()
        except ConnectionLost:
            channel.close()
            return
        self._channels[channel] = None
        self._loop.add_reader(channel.fileno(), partial(self._discard, channel))

    def close(self) -> None:
        """Wait for nobody any longer."""
        for channel in list(self._channels):
            self._end(channel)

    def _discard(self, channel: Channel) -> None:
        try:
            count = channel.receive_into(self._room)
        except ConnectionLost:
            count = 0
        if count == 0:
            self._end(channel)

    def _end(self, channel: Channel) -> None:
        del self._channels[channel]
        self._loop.remove_reader(channel.fileno())
        channel.close()
        if not self._channels:
            self._emptied()
