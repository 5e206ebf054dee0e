"""The result does not depend on how a stream is split or in which order requests complete."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.exceptions import ProtocolError
from headwater.network.network_settings import NetworkSettings
from headwater.network.receive_buffer import ReceiveBuffer
from headwater.network.request_service import ResponseSlot
from headwater.records.kernel import new_block
from tests.simulation.fakes.scripted_network import ScriptedTransportLayer
from tests.simulation.labs.connection_lab import ConnectionLab, Range, framed, keep_waiting

sizes = st.one_of(
    st.integers(0, 40), st.integers(4_000, 4_200), st.integers(65_000, 66_000), st.just(300_000)
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Return frames, and their stream in pieces."""
    frames = [
        bytes([number % 251]) * size
        for number, size in enumerate(draw(st.lists(sizes, max_size=12)))
    ]
    stream = b"".join(map(framed, frames))
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    return frames, [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@given(streams())
def test_any_split_of_a_stream_gives_the_same_frames(
    case: tuple[list[bytes], list[bytes]],
) -> None:
    frames, pieces = case
    lab = ConnectionLab(behave=lambda slot, _: slot.finish())
    connection, channel = lab.connect()
    channel.feed(*pieces)
    channel.end()
    lab.loop.run()
    assert lab.frames == frames
    assert connection.is_closed


@given(st.lists(st.binary(max_size=12), max_size=12), st.integers(0, 30))
def test_arbitrary_bytes_are_frames_or_a_protocol_error_and_the_buffer_stays_small(
    pieces: list[bytes], limit_bytes: int
) -> None:
    buffer = ReceiveBuffer(limit_bytes)
    stream = b"".join(pieces)
    cut = bytearray()
    try:
        for piece in pieces:
            for byte in piece:
                buffer.get_buffer()[0] = byte
                buffer.buffer_updated(1)
                while (frame := buffer.next_frame()) is not None:
                    cut += framed(bytes(frame))
    except ProtocolError:
        size = int.from_bytes(stream[len(cut) : len(cut) + 4], "big", signed=True)
        assert not 0 <= size <= limit_bytes
    assert stream.startswith(cut)
    assert buffer.capacity_bytes == 4_096


@given(streams(), st.data())
def test_kept_frames_are_not_overwritten(
    case: tuple[list[bytes], list[bytes]], data: st.DataObject
) -> None:
    frames, pieces = case
    buffer = ReceiveBuffer(1_000_000, new_block)
    kept: list[tuple[memoryview | bytes, bytes]] = []
    for piece in pieces:
        left = memoryview(piece)
        while left:
            room = buffer.get_buffer()
            count = min(len(room), len(left))
            room[:count] = left[:count]
            buffer.buffer_updated(count)
            left = left[count:]
            while (frame := buffer.next_frame()) is not None:
                is_kept = data.draw(st.booleans()) and buffer.detach(frame)
                kept.append((frame if is_kept else bytes(frame), frames[len(kept)]))
                # A kept frame holds at most twice its size.
                assert not is_kept or buffer.capacity_bytes <= 2 * len(frame)
    assert [bytes(frame) for frame, _ in kept] == [whole for _, whole in kept] == frames


@given(st.integers(0, 2**32))
def test_responses_are_sent_in_order_whatever_the_order_of_completion(seed: int) -> None:
    rng = random.Random(seed)
    limits = NetworkSettings(
        headwater_connection_unsent_bytes_max=rng.randrange(60),
        headwater_connection_requests_max=rng.randint(1, 6),
        queued_max_requests=rng.randint(1, 5),
    )
    lab = ConnectionLab(limits, behave=keep_waiting)
    pairs = [lab.connect() for _ in range(rng.randint(1, 3))]
    wanted = rng.randint(1, 12)
    for _, channel in pairs:
        channel.takes = 0
        channel.feed(b"".join(framed(bytes([number])) for number in range(1, wanted + 1)))
    ranges: list[Range] = []
    while len(ranges) < wanted * len(pairs):
        lab.loop.run()
        waiting = [index for index, slot in enumerate(lab.slots) if slot.parts is None]
        if waiting and rng.random() < 0.5:
            index = rng.choice(waiting)
            number = lab.frames[index][0]
            ranges.append(Range(number, number))
            lab.slots[index].respond([bytes([number]) * number, ranges[-1]])
        else:
            for _, channel in pairs:
                channel.takes = rng.randint(1, 20)
    for connection, channel in pairs:
        channel.takes = None
        lab.loop.run()
        assert channel.sent == b"".join(bytes([n]) * 2 * n for n in range(1, wanted + 1))
        assert connection.unsent_bytes == connection.unanswered_count == 0
    assert [part.release_count for part in ranges] == [1] * len(ranges)
    assert lab.inflight_bytes.overlapping_requests.used == 0


class Storm:
    """Random peers, responses, holds, mutes, idle checks and, if enabled, disconnects."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        limits = NetworkSettings(
            socket_request_max_bytes=200_000,
            headwater_connection_unsent_bytes_max=rng.choice([0, 1_000, 1_000_000]),
            headwater_connection_requests_max=rng.randint(1, 6),
            queued_max_requests=rng.randint(0, 4),
            queued_max_request_bytes=rng.choice([-1, 1, 100_000]),
        )
        self.lab = ConnectionLab(limits, self._behave)
        self.pairs = [self.lab.connect() for _ in range(4)]
        self.ranges: list[Range] = []
        self.fed_count = 0
        self._now_ms = 0

    @property
    def waiting(self) -> list[ResponseSlot]:
        return [slot for slot in self.lab.slots if slot.parts is None]

    def answer(self, slot: ResponseSlot) -> None:
        part = Range(self.rng.randrange(256), self.rng.choice([0, 1, 5_000]))
        self.ranges.append(part)
        slot.respond([bytes(self.rng.randrange(100)), part])

    def sweep(self, passed_ms: int) -> None:
        self._now_ms += passed_ms
        self.lab.sweep(self._now_ms)

    def blow(self, *, with_ends: bool) -> None:
        rng = self.rng
        connection, channel = rng.choice(self.pairs)
        match rng.randrange(10):
            case 0 | 1 | 2:
                self._feed(channel)
            case 3 | 4 | 5 if self.waiting:
                self.answer(rng.choice(self.waiting))
            case 6:
                channel.takes = rng.choice([None, 0, 10, 10_000])
            case 7:
                self.sweep(rng.randrange(2_000))
            case 8 if with_ends and rng.random() < 0.3:
                rng.choice([connection.close, connection.drain, channel.end])()
            case 9 if with_ends and rng.random() < 0.2:
                channel.feed(b"garbage")
                channel.is_broken = rng.random() < 0.5
        for _ in range(rng.randrange(4)):
            self.lab.is_crowded = rng.random() < 0.5
            self.lab.loop.turn()

    def _feed(self, channel: ScriptedTransportLayer) -> None:
        count = self.rng.choice([1, 1, 2, 3, 150])
        size = self.rng.choice([0, 10, 5_000, 70_000, 150_000] if count < 150 else [0, 10])
        stream = framed(bytes(size)) * count
        cut = self.rng.randrange(len(stream))
        channel.feed(stream[:cut], stream[cut:])
        self.fed_count += count

    def _behave(self, slot: ResponseSlot, _: memoryview) -> None:
        if self.rng.random() < 0.3:
            slot.hold()
        if self.rng.random() < 0.1:
            slot.connection.mute(until_ms=self._now_ms + self.rng.randrange(3_000))
        if self.rng.random() < 0.5:
            self.answer(slot)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_all_accounts_balance_in_the_end(seed: int) -> None:
    storm = Storm(seed)
    for _ in range(60):
        storm.blow(with_ends=True)
    for connection, _ in storm.pairs:
        connection.close()
    for slot in storm.waiting:
        storm.answer(slot)
    lab = storm.lab
    lab.loop.run()
    assert [part.release_count for part in storm.ranges] == [1] * len(storm.ranges)
    assert lab.inflight_bytes.overlapping_requests.used == 0
    assert lab.inflight_bytes.buffer_bytes.used == 0
    assert lab.to_sweep == {}
    assert lab.loop.readers == lab.loop.writers == {}
    assert lab.failures == []
    assert sorted(map(id, lab.closed_ones)) == sorted(id(pair[0]) for pair in storm.pairs)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32))
def test_no_request_is_lost_after_pauses(seed: int) -> None:
    """Paused connections continue when nothing pauses them any longer."""
    storm = Storm(seed)
    for _ in range(60):
        storm.blow(with_ends=False)
    for _, channel in storm.pairs:
        channel.takes = None
    while len(storm.lab.frames) < storm.fed_count or storm.waiting:
        served, answered = len(storm.lab.frames), len(storm.ranges)
        for slot in storm.waiting:
            storm.answer(slot)
        storm.lab.loop.run()
        storm.sweep(3_000)
        storm.lab.loop.run()
        assert (len(storm.lab.frames), len(storm.ranges)) > (served, answered), "it is stuck"
    storm.lab.loop.run()
    assert len(storm.lab.frames) == storm.fed_count
    for connection, _ in storm.pairs:
        assert connection.unsent_bytes == connection.unanswered_count == 0
