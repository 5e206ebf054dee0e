"""Fair sharing of the loop's time: small requests do not wait behind busy connections."""

from collections.abc import Iterator
from typing import ClassVar

import pytest

from headwater.network.limits.fair_queue import SHARE_NS
from headwater.network.request_service import ReplySlot
from tests.simulation.fakes.scripted_network import ScriptedTransportLayer
from tests.simulation.labs.connection_lab import ConnectionLab, echo, framed

MS = 1_000_000


class TimedLab(ConnectionLab):
    """Requests take as long as their content says, in tenths of a millisecond by letter."""

    COSTS: ClassVar = {b"a": MS // 10, b"m": MS, b"z": 20 * MS}

    def __init__(self) -> None:
        super().__init__(behave=self._work)
        self.served_ns: dict[bytes, int] = {}

    def _work(self, slot: ReplySlot, frame: memoryview) -> None:
        self.now_ns += self.COSTS[bytes(frame[:1])]
        self.served_ns[bytes(frame)] = self.now_ns
        echo(slot, frame)

    def busy(self, count: int, content: bytes, requests: int) -> list[ScriptedTransportLayer]:
        """So many connections with so many pipelined requests each."""
        channels = [self.connect()[1] for _ in range(count)]
        for channel in channels:
            channel.feed(framed(content) * requests)
        return channels

    def until(self, content: bytes) -> int:
        """Run the loop until such a request has been served; return the time it took."""
        began_ns = self.now_ns
        for _ in range(1_000):
            if content in self.served_ns:
                return self.served_ns[content] - began_ns
            self.loop.turn()
        raise AssertionError(f"{content!r} is never served")


def test_connection_gets_a_share_of_time_not_a_number_of_requests() -> None:
    lab = TimedLab()
    lab.busy(1, b"m", 60)
    lab.loop.turn()
    assert lab.frames == [b"m"]
    lab.loop.turn()
    assert len(lab.frames) <= 3


@pytest.mark.parametrize("count", [1, 20, 200])
@pytest.mark.parametrize(("content", "requests"), [(b"a", 3_000), (b"m", 100), (b"z", 20)])
def test_small_request_is_served_before_the_backlog_of_others(
    content: bytes, requests: int, count: int
) -> None:
    lab = TimedLab()
    channels = lab.busy(count, content, requests)
    # Among connections that have not been served yet, the first to arrive is served first.
    while not all(each.sent for each in channels):
        lab.loop.turn()
    _, honest = lab.connect()
    honest.feed(framed(b"a-honest"))
    # What is served at once, a run of the queue, and the request that it ends with.
    assert lab.until(b"a-honest") <= 6 * MS + lab.COSTS[content] + SHARE_NS
    assert len(lab.frames) < count * requests


@pytest.mark.parametrize("count", [1, 20, 200])
def test_clients_that_wait_for_each_expensive_response_are_no_worse(count: int) -> None:
    """They are idle when they are answered, but the time they used is not forgotten."""
    lab = TimedLab()
    channels = lab.busy(count, b"z", 1)
    for _ in range(2 * count):
        lab.loop.turn()
        for channel in channels:
            if channel.sent:
                channel.sent.clear()
                channel.feed(framed(b"z"))
    _, honest = lab.connect()
    honest.feed(framed(b"a-honest"))
    assert lab.until(b"a-honest") <= 6 * MS + lab.COSTS[b"z"]


def test_reconnecting_for_each_request_gives_no_priority() -> None:
    lab = TimedLab()
    _, honest = lab.connect()
    honest.feed(framed(b"a"))
    lab.busy(20, b"z", 5)
    for _ in range(100):
        lab.loop.turn()
    lab.busy(20, b"z", 1)
    lab.loop.turn()
    honest.feed(framed(b"a-honest"))
    assert lab.until(b"a-honest") <= 6 * MS + lab.COSTS[b"z"]


def test_idle_connection_does_not_save_up_time() -> None:
    lab = TimedLab()
    _, idle = lab.connect()
    lab.busy(1, b"m", 1_000)
    for _ in range(200):
        lab.loop.turn()
    served_before = len(lab.frames)
    idle.feed(framed(b"m-late") * 1_000)
    for _ in range(100):
        lab.loop.turn()
    late = lab.frames[served_before:].count(b"m-late")
    others = lab.frames[served_before:].count(b"m")
    assert abs(late - others) <= 20


def test_equal_connections_get_equal_shares() -> None:
    lab = TimedLab()
    cheap, dear = lab.busy(1, b"a", 5_000), lab.busy(1, b"m", 500)
    for _ in range(150):
        lab.loop.turn()
    shares = [len(each.sent) for each in (*cheap, *dear)]
    assert shares[0] > 5 * shares[1] > 0


def test_single_connection_is_served_without_pauses() -> None:
    lab = TimedLab()
    lab.busy(1, b"a", 1_000)
    lab.loop.turn()
    turns = 1
    while len(lab.frames) < 1_000:
        lab.loop.turn()
        turns += 1
        assert turns < 250, "a turn of the loop passed without a request"


def test_request_in_steps_lets_others_go_first() -> None:
    lab = ConnectionLab()
    taken: list[int] = []

    def steps(slot: ReplySlot) -> Iterator[None]:
        for number in range(50):
            lab.now_ns += MS // 2
            taken.append(number)
            yield
        slot.reply([framed(b"at last")])

    def behave(slot: ReplySlot, frame: memoryview) -> None:
        if bytes(frame) == b"large":
            slot.work(steps(slot))
        else:
            echo(slot, frame)

    lab.behave = behave
    _, hostile = lab.connect()
    _, honest = lab.connect()
    hostile.feed(framed(b"large") + framed(b"behind it"))
    waits = []
    while len(taken) < 50:
        honest.feed(framed(b"small"))
        before = len(taken)
        lab.loop.turn()
        if honest.sent:
            honest.sent.clear()
            waits.append(len(taken) - before)
    assert len(waits) > 10
    assert max(waits) * MS // 2 <= 6 * MS
    assert b"behind it" not in lab.frames[:-1] or taken[-1] == 49
    for _ in range(5):
        lab.loop.turn()
    assert bytes(hostile.sent) == framed(b"at last") + framed(b"behind it")


class SteppedLab(ConnectionLab):
    """Every request is answered in ten steps of a millisecond; its letter is its size."""

    SIZES: ClassVar = {b"l": 100_000, b"s": 1_000}

    def __init__(self) -> None:
        super().__init__(behave=self._work)
        self.begun: dict[ReplySlot, int] = {}
        self.most_at_a_time = 0

    def _work(self, slot: ReplySlot, frame: memoryview) -> None:
        slot.work(self._steps(slot), self.SIZES[bytes(frame[:1])])

    def _steps(self, slot: ReplySlot) -> Iterator[None]:
        self.begun[slot] = 0
        for _ in range(10):
            unfinished = sum(each.parts is None for each in self.begun)
            self.most_at_a_time = max(self.most_at_a_time, unfinished)
            self.now_ns += MS
            yield
        slot.reply([framed(b"done")])


def test_few_large_requests_are_processed_at_a_time() -> None:
    """As objects they take many times their bytes."""
    lab = SteppedLab()
    channels = [lab.connect()[1] for _ in range(50)]
    for channel in channels:
        channel.feed(framed(b"l") * 2)
    lab.loop.run()
    assert lab.most_at_a_time == 3
    assert {bytes(channel.sent) for channel in channels} == {framed(b"done") * 2}
    assert lab.inflight_bytes.stepwise_bytes.used == 0


def test_small_request_does_not_wait_behind_large_ones() -> None:
    lab = SteppedLab()
    for _ in range(50):
        lab.connect()[1].feed(framed(b"l"))
    for _ in range(10):
        lab.loop.turn()
    _, small = lab.connect()
    small.feed(framed(b"s"))
    while not small.sent:
        lab.loop.turn()
    assert len(lab.begun) < 10


def test_closed_connection_releases_its_large_request() -> None:
    lab = SteppedLab()
    connections = [lab.connect() for _ in range(10)]
    for _, channel in connections:
        channel.feed(framed(b"l"))
    for _ in range(5):
        lab.loop.turn()
    for connection, _ in connections[:9]:
        connection.close()
    lab.loop.run()
    assert connections[9][1].sent
    assert lab.inflight_bytes.stepwise_bytes.used == 0
    assert lab.inflight_bytes.stepwise_bytes.waiting_count == 0


def test_no_step_runs_for_a_closed_connection() -> None:
    lab = ConnectionLab()
    taken: list[int] = []

    def steps() -> Iterator[None]:
        for number in range(1_000):
            lab.now_ns += MS
            taken.append(number)
            yield

    lab.behave = lambda slot, _: slot.work(steps())
    connection, channel = lab.connect()
    channel.feed(framed(b"large"))
    lab.loop.turn()
    assert taken
    connection.close()
    count = len(taken)
    for _ in range(5):
        lab.loop.turn()
    assert len(taken) == count
    assert not lab.failures


def test_failing_steps_close_their_connection_only() -> None:
    lab = ConnectionLab()

    def steps() -> Iterator[None]:
        yield
        raise KeyError("ours")

    def behave(slot: ReplySlot, frame: memoryview) -> None:
        if bytes(frame) == b"large":
            slot.work(steps())
        else:
            echo(slot, frame)

    lab.behave = behave
    hostile, channel = lab.connect()
    _, honest = lab.connect()
    channel.feed(framed(b"large"))
    lab.loop.turn()
    lab.loop.turn()
    assert hostile.is_closed
    assert [type(each) for each in lab.failures] == [KeyError]
    honest.feed(framed(b"small"))
    lab.loop.turn()
    assert honest.sent
