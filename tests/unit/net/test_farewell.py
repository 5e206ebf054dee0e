"""Channels on which we have said everything, and the peer has not."""

from headwater.net.farewell import Farewells
from tests.sim.scripted_net import ScriptedChannel, SteppedLoop


class Lab:
    def __init__(self) -> None:
        self.loop = SteppedLoop()
        self.emptied = 0
        self.farewells = Farewells(self.loop, self._note)

    def channel(self, fd: int) -> ScriptedChannel:
        channel = ScriptedChannel(fd)
        self.loop.watch(channel)
        return channel

    def _note(self) -> None:
        self.emptied += 1


def test_what_still_comes_is_thrown_away_until_the_peer_hangs_up() -> None:
    lab = Lab()
    one, other = lab.channel(3), lab.channel(4)
    for channel in (one, other):
        lab.farewells.part(channel)
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
    assert not lab.farewells


def test_a_peer_that_is_gone_is_not_waited_for() -> None:
    lab = Lab()
    gone, breaking = lab.channel(3), lab.channel(4)
    gone.is_broken = True
    lab.farewells.part(gone)
    assert gone.is_closed
    lab.farewells.part(breaking)
    breaking.is_broken = True
    lab.loop.run()
    assert breaking.is_closed


def test_patience_ends() -> None:
    lab = Lab()
    channels = [lab.channel(fd) for fd in (3, 4)]
    for channel in channels:
        lab.farewells.part(channel)
    lab.farewells.close()
    assert all(channel.is_closed for channel in channels)
    assert lab.loop.readers == {}
    assert lab.emptied == 1
