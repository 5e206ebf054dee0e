"""Fair sharing of the loop's time: small requests do not wait behind busy connections."""

from collections.abc import Iterator
from random import Random
from typing import ClassVar

import pytest

from headwater.network.acceptor import Acceptor
from headwater.network.connection import Connection
from headwater.network.endpoint import Endpoint
from headwater.network.limits.fair_queue import SHARE_NS
from headwater.network.request_service import ResponseSlot
from headwater.network.tls.pending_handshakes import _FairHandshake
from tests.simulation.fakes.scripted_network import ScriptedTransportLayer
from tests.simulation.labs.connection_lab import ConnectionLab, echo, framed, keep_waiting

MS = 1_000_000


class TimedLab(ConnectionLab):
    """Requests take as long as their content says, in tenths of a millisecond by letter."""

    COSTS: ClassVar = {b"a": MS // 10, b"m": MS, b"z": 20 * MS}

    def __init__(self) -> None:
        super().__init__(behave=self._work)
        self.served_ns: dict[bytes, int] = {}

    def _work(self, slot: ResponseSlot, frame: memoryview) -> None:
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

    def steps(slot: ResponseSlot) -> Iterator[None]:
        for number in range(50):
            lab.now_ns += MS // 2
            taken.append(number)
            yield
        slot.respond([framed(b"at last")])

    def behave(slot: ResponseSlot, frame: memoryview) -> None:
        if bytes(frame) == b"large":
            slot.run_steps(steps(slot))
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
        self.begun: dict[ResponseSlot, int] = {}
        self.most_at_a_time = 0

    def _work(self, slot: ResponseSlot, frame: memoryview) -> None:
        slot.run_steps(self._steps(slot), self.SIZES[bytes(frame[:1])])

    def _steps(self, slot: ResponseSlot) -> Iterator[None]:
        self.begun[slot] = 0
        for _ in range(10):
            unfinished = sum(each.parts is None for each in self.begun)
            self.most_at_a_time = max(self.most_at_a_time, unfinished)
            self.now_ns += MS
            yield
        slot.respond([framed(b"done")])


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


def test_frame_stays_valid_until_a_request_in_steps_is_answered() -> None:
    """Whatever arrives meanwhile, and even if the steps pause for a while."""
    lab = ConnectionLab()
    large = b"large" + Random(1).randbytes(200_000)
    seen: list[bytes] = []

    def steps(slot: ResponseSlot, content: memoryview, count: int) -> Iterator[None]:
        for _ in range(3):
            lab.now_ns += MS
            seen.append(bytes(content))
            yield
        if not count:
            slot.respond([framed(b"done")])

    def behave(slot: ResponseSlot, frame: memoryview) -> None:
        if bytes(frame[:5]) == b"large":
            # A slice, since the frame itself is released.
            kept.append(frame[:])
            slot.run_steps(steps(slot, kept[0], 1))
        else:
            echo(slot, frame)

    kept: list[memoryview] = []
    lab.behave = behave
    _, channel = lab.connect()
    channel.feed(framed(large))
    now_ms = 0
    while len(seen) < 3:
        lab.loop.turn()
    capacity_bytes = lab.inflight_bytes.buffer_bytes.used
    assert capacity_bytes > len(large)
    channel.feed(framed(b"next") * 100)
    for _ in range(10):
        lab.loop.turn()
        now_ms += 1_000
        lab.sweep(now_ms)
    assert lab.inflight_bytes.buffer_bytes.used == capacity_bytes
    lab.slots[0].run_steps(steps(lab.slots[0], kept[0], 0))
    for _ in range(50):
        lab.loop.turn()
    assert seen == [large] * 6
    assert bytes(channel.sent) == framed(b"done") + framed(b"next") * 100
    for _ in range(3):
        now_ms += 1_000
        lab.sweep(now_ms)
    assert lab.inflight_bytes.buffer_bytes.used == 0


def test_no_step_runs_for_a_closed_connection() -> None:
    lab = ConnectionLab()
    taken: list[int] = []

    def steps() -> Iterator[None]:
        for number in range(1_000):
            lab.now_ns += MS
            taken.append(number)
            yield

    lab.behave = lambda slot, _: slot.run_steps(steps())
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


class Flooded:
    """A listener with an endless flood of connections: `socket.socket`, as far as needed."""

    def __init__(self, lab: TimedLab) -> None:
        self.lab = lab
        self.listener = Acceptor(
            Endpoint(name="PLAINTEXT", host="192.0.2.1", port=9092),
            self,  # type: ignore[arg-type]
            lab.loop,
            fair_queue=lab.fair_queue,
            may_accept=lambda: True,
            on_accepted=self.welcome,
        )
        lab.on_closed = self.departed
        lab.loop.watch(self)  # type: ignore[arg-type]
        self.listener.start()

    is_closed = False

    def fileno(self) -> int:
        return 1_000_000

    @property
    def is_readable(self) -> bool:
        return True

    @property
    def is_writable(self) -> bool:
        return False

    def getsockname(self) -> tuple[str, int]:
        return "192.0.2.1", 9092

    def accept(self) -> tuple[object, tuple[str, int]]:
        return object(), ("192.0.2.2", 1)

    def welcome(self, *_address: object) -> None:
        """Accepting takes 60 us, serving 100 us; then the client disconnects."""
        self.lab.now_ns += 60_000
        _, channel = self.lab.connect(self.listener.tag_ns)
        channel.feed(framed(b"a"))
        channel.end()

    def departed(self, connection: Connection) -> None:
        self.lab.loop.forget(connection._fd)
        self.listener.charge_short_lived(connection.tag_ns - connection.first_tag_ns)


class Shaking:
    """A TLS channel whose handshake never ends; each step takes 3 ms."""

    has_unsent = is_closed = is_writable = False
    is_readable = True

    def __init__(self, lab: TimedLab, number: int) -> None:
        self.lab = lab
        self.number = number

    def fileno(self) -> int:
        return 1_000_000 + self.number

    def handshake(self) -> bool:
        self.lab.now_ns += 3 * MS
        return False


class Listener:
    """`Acceptor`, as far as a handshake needs it."""

    def __init__(self, lab: TimedLab) -> None:
        self.fair_queue = lab.fair_queue
        self.tag_ns = 0

    def charge_short_lived(self, used_ns: int) -> None:
        self.tag_ns += used_ns


def test_handshakes_take_turns_with_connections() -> None:
    lab = TimedLab()
    _, honest = lab.connect()
    # Others have been served since it connected, so it is no new connection.
    lab.busy(1, b"m", 60)
    for _ in range(100):
        lab.loop.turn()
    for number in range(50):
        channel = Shaking(lab, number)
        lab.loop.watch(channel)  # type: ignore[arg-type]
        _FairHandshake(
            lab.loop,
            channel,  # type: ignore[arg-type]
            Listener(lab),  # type: ignore[arg-type]
            done=lambda: None,
            failed=lambda _: None,
        ).begin()
    for number in range(100):
        content = b"a%d" % number
        honest.feed(framed(content))
        assert lab.until(content) <= 12 * MS
        # It uses less than its share.
        until_ns = lab.now_ns + 10 * MS
        while lab.now_ns < until_ns:
            lab.loop.turn()


def test_queue_continues_after_a_failing_turn() -> None:
    lab = TimedLab()

    class Failing:
        tag_ns = 0

        def take_turn(self) -> None:
            raise KeyError("ours")

    lab.fair_queue.wait(Failing())
    lab.fair_queue.wait(Failing())
    lab.busy(1, b"m", 60)
    for _ in range(2):
        with pytest.raises(KeyError):
            lab.loop.turn()
    for _ in range(100):
        lab.loop.turn()
    assert len(lab.frames) == 60


def test_flood_of_connections_does_not_delay_existing_ones() -> None:
    lab = TimedLab()
    _, honest = lab.connect()
    Flooded(lab)
    due_ns, waits, is_due = 0, [], False
    for _ in range(1_000):
        if not is_due and lab.now_ns >= due_ns:
            honest.feed(framed(b"m"))
            due_ns, is_due = lab.now_ns + 10 * MS, True
            began_ns = lab.now_ns
        lab.loop.turn()
        if is_due and honest.sent:
            honest.sent.clear()
            waits.append(lab.now_ns - began_ns)
            is_due = False
    assert len(waits) > 50
    assert max(waits) <= 6 * MS
    # The flood continues meanwhile.
    assert len(lab.frames) > 10 * len(waits)


def test_steps_may_start_further_steps() -> None:
    lab = ConnectionLab()
    taken: list[str] = []

    def later(slot: ResponseSlot) -> Iterator[None]:
        for number in range(20):
            lab.now_ns += MS
            taken.append(f"later {number}")
            yield
        slot.respond([framed(b"at last")])

    def first(slot: ResponseSlot) -> Iterator[None]:
        taken.append("first")
        yield
        slot.run_steps(later(slot))

    lab.behave = lambda slot, _: slot.run_steps(first(slot), 500_000)
    connection, channel = lab.connect()
    channel.feed(framed(b"large"))
    for _ in range(10):
        lab.loop.turn()
    assert taken == ["first", *(f"later {number}" for number in range(len(taken) - 1))]
    # A share of time per turn, whichever steps run.
    assert 5 < len(taken) <= 21
    assert lab.inflight_bytes.stepwise_bytes.used == 500_000
    for _ in range(50):
        lab.loop.turn()
    assert bytes(channel.sent) == framed(b"at last")
    assert lab.inflight_bytes.stepwise_bytes.used == 0
    assert not connection.is_closed


def test_failing_steps_close_their_connection_only() -> None:
    lab = ConnectionLab()

    def steps() -> Iterator[None]:
        yield
        raise KeyError("ours")

    def behave(slot: ResponseSlot, frame: memoryview) -> None:
        if bytes(frame) == b"large":
            slot.run_steps(steps())
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


@pytest.mark.parametrize("arrives", [b"", framed(b"a")[:2]], ids=["nothing", "part of a frame"])
def test_response_is_sent_although_its_connection_was_queued_to_read(arrives: bytes) -> None:
    """A follower's Fetch was answered while its connection waited for its turn to read.

    The loop may report a connection as readable after its bytes have been read in a turn.
    """
    lab = TimedLab()
    work, lab.behave = lab.behave, keep_waiting
    connection, channel = lab.connect()
    channel.feed(framed(b"delayed fetch"))
    lab.loop.turn()
    (slot,) = lab.slots
    lab.behave = work
    lab.busy(20, b"m", 3)
    lab.loop.turn()
    channel.feed(arrives)
    connection._on_readable()
    assert connection._is_queued
    slot.respond([framed(b"late")])
    for _ in range(200):
        lab.loop.turn()
    assert channel.sent


@pytest.mark.parametrize("seed", range(10))
def test_every_response_is_sent_whenever_it_is_given(seed: int) -> None:
    """Each client waits for its response, which is given at a random time on a busy loop."""
    random = Random(seed)
    lab = TimedLab()
    work = lab.behave
    waiting: list[ResponseSlot] = []

    def behave(slot: ResponseSlot, frame: memoryview) -> None:
        if bytes(frame) == b"delayed":
            lab.now_ns += MS
            waiting.append(slot)
        else:
            work(slot, frame)

    lab.behave = behave
    clients = [lab.connect()[1] for _ in range(20)]
    idle = list(clients)
    for _ in range(1_000):
        while idle and random.random() < 0.7:
            idle.pop(random.randrange(len(idle))).feed(framed(b"delayed"))
        while waiting and random.random() < 0.7:
            waiting.pop(random.randrange(len(waiting))).respond([framed(b"answer")])
        lab.loop.turn()
        answered = [each for each in clients if each.sent]
        for each in answered:
            each.sent.clear()
        idle += answered
    while waiting or lab.loop.turn():
        if waiting:
            waiting.pop().respond([framed(b"answer")])
    idle += [each for each in clients if each.sent]
    assert len(idle) == len(clients)
