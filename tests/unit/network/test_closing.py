"""Channels that are shut down for sending while the peer still sends."""

from headwater.network.closing import CLOSE_TIMEOUT_MS, ClosingConnections
from headwater.network.limits.idle_expiry import CoarseClock
from headwater.network.request_service import ClientAddress
from headwater.network.transport_layer import TransportLayer
from tests.simulation.fakes.scripted_network import ScriptedTransportLayer, SteppedLoop


class Lab:
    def __init__(self) -> None:
        self.loop = SteppedLoop()
        self.clock = CoarseClock(0)
        self.emptied = 0
        self.closed_ports: list[int] = []
        self.closing_connections = ClosingConnections(
            self.loop, self.clock, close=self._close, on_empty=self._note
        )

    def channel(self, fd: int) -> ScriptedTransportLayer:
        channel = ScriptedTransportLayer(fd)
        self.loop.watch(channel)
        return channel

    def part(self, channel: ScriptedTransportLayer) -> None:
        address = ClientAddress(
            listener="PLAINTEXT", peer_host="192.0.2.1", peer_port=channel.fileno()
        )
        self.closing_connections.close_gracefully(channel, address)

    def sweep(self, now_ms: int) -> None:
        self.closing_connections.sweep(now_ms)
        self.clock.now_ms = now_ms

    def _close(self, channel: TransportLayer, address: ClientAddress) -> None:
        channel.close()
        self.closed_ports.append(address.peer_port)

    def _note(self) -> None:
        self.emptied += 1


def test_received_bytes_are_discarded_until_the_peer_closes() -> None:
    lab = Lab()
    one, other = lab.channel(3), lab.channel(4)
    for channel in (one, other):
        lab.part(channel)
        assert channel.has_said_all
    one.feed(b"more", b"and more")
    lab.loop.run()
    assert one.unread_bytes == 0
    assert not one.is_closed
    one.end()
    lab.loop.run()
    assert (one.is_closed, other.is_closed, lab.emptied) == (True, False, 0)
    other.end()
    lab.loop.run()
    assert (other.is_closed, lab.emptied) == (True, 1)
    assert not lab.closing_connections


def test_disconnected_peer_is_not_waited_for() -> None:
    lab = Lab()
    gone, breaking = lab.channel(3), lab.channel(4)
    gone.is_broken = True
    lab.part(gone)
    assert gone.is_closed
    assert lab.closed_ports == [3]
    lab.part(breaking)
    breaking.is_broken = True
    lab.loop.run()
    assert breaking.is_closed


def test_channels_are_closed_after_the_timeout() -> None:
    lab = Lab()
    channels = [lab.channel(fd) for fd in (3, 4)]
    for channel in channels:
        lab.part(channel)
    lab.closing_connections.close()
    assert all(channel.is_closed for channel in channels)
    assert lab.loop.readers == {}
    assert lab.emptied == 1


def test_lingering_channel_is_closed_after_a_while_and_counted_until_then() -> None:
    lab = Lab()
    early, late = lab.channel(3), lab.channel(4)
    lab.part(early)
    lab.sweep(1_000)
    lab.part(late)
    lab.sweep(CLOSE_TIMEOUT_MS - 1)
    assert lab.closed_ports == []
    lab.sweep(CLOSE_TIMEOUT_MS)
    assert (early.is_closed, late.is_closed, lab.closed_ports) == (True, False, [3])
    lab.sweep(CLOSE_TIMEOUT_MS + 1_000)
    assert (lab.closed_ports, lab.emptied, lab.loop.readers) == ([3, 4], 1, {})
