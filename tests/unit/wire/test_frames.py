"""Frames are cut where they end, however they arrive, and a bad size ends the connection."""

import pytest

from headwater.model.failures import ProtocolError
from headwater.wire.frames import FrameBuffer

LIMIT = 100 * 1024 * 1024


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def feed(buffer: FrameBuffer, data: bytes) -> None:
    """Puts all of the data into the buffer, as often as it takes."""
    while data:
        room = buffer.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        buffer.received(count)
        data = data[count:]


def frames(buffer: FrameBuffer) -> list[bytes]:
    found = []
    while (frame := buffer.next_frame()) is not None:
        found.append(bytes(frame))
    return found


def test_two_frames_and_a_half_are_two_frames() -> None:
    buffer = FrameBuffer(limit_bytes=LIMIT)
    feed(buffer, framed(b"one") + framed(b"") + framed(b"three")[:-1])
    assert frames(buffer) == [b"one", b""]
    feed(buffer, b"e")
    assert frames(buffer) == [b"three"]


def test_a_frame_is_a_writable_view_and_no_copy() -> None:
    """The log stamps offsets into a batch where it lies."""
    buffer = FrameBuffer(limit_bytes=LIMIT)
    room = buffer.room()
    feed(buffer, framed(b"abc"))
    frame = buffer.next_frame()
    assert frame is not None
    frame[0] = ord("X")
    assert bytes(room[:7]) == framed(b"Xbc")


@pytest.mark.parametrize("size", [-1, -(2**31), 11, 2**31 - 1])
def test_a_negative_size_and_one_over_the_limit_are_refused(size: int) -> None:
    buffer = FrameBuffer(limit_bytes=10)
    feed(buffer, size.to_bytes(4, "big", signed=True))
    with pytest.raises(ProtocolError, match="the limit is 10"):
        buffer.next_frame()


def test_frames_before_a_bad_size_are_handed_out_first() -> None:
    buffer = FrameBuffer(limit_bytes=10)
    feed(buffer, framed(b"good") + b"\xff" * 4)
    good = buffer.next_frame()
    assert good is not None
    assert bytes(good) == b"good"
    with pytest.raises(ProtocolError):
        buffer.next_frame()


def test_a_size_alone_costs_no_memory() -> None:
    buffer = FrameBuffer(limit_bytes=LIMIT)
    feed(buffer, LIMIT.to_bytes(4, "big"))
    before = buffer.capacity_bytes
    assert buffer.next_frame() is None
    buffer.room()
    assert buffer.capacity_bytes == before


def test_a_large_frame_grows_the_buffer_and_shrink_takes_it_back() -> None:
    buffer = FrameBuffer(limit_bytes=LIMIT)
    small = buffer.capacity_bytes
    body = bytes(range(256)) * 4096
    feed(buffer, framed(body) + framed(b"next")[:-1])
    assert frames(buffer) == [body]
    assert buffer.capacity_bytes <= 4 * len(body)
    buffer.shrink()
    assert buffer.capacity_bytes <= small + buffer.unread_bytes
    feed(buffer, b"t")
    assert frames(buffer) == [b"next"]


def test_frames_outlive_the_next_receive_when_the_memory_is_given_away() -> None:
    buffer = FrameBuffer(limit_bytes=LIMIT)
    feed(buffer, framed(b"first") + framed(b"second")[:5])
    frame = buffer.next_frame()
    assert frame is not None
    buffer.give_away()
    feed(buffer, framed(b"second")[5:] + framed(b"third"))
    assert frames(buffer) == [b"second", b"third"]
    assert bytes(frame) == b"first"
