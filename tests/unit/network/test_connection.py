"""One connection on a scripted network: order, back-pressure, holds, releases, closing."""

import pytest

from headwater.common.exceptions import ProtocolError
from headwater.network.limits.closed_connection_log import LINES_MAX
from headwater.network.network_settings import NetworkSettings
from headwater.network.receive_buffer import BUSY_BYTES, SMALL_BYTES
from headwater.network.request_service import ResponseSlot
from tests.simulation.labs.connection_lab import ConnectionLab, Range, echo, framed, keep_waiting


@pytest.fixture(params=[False, True], ids=["few", "many"], autouse=True)
def crowd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds with many other connections too."""
    monkeypatch.setattr(ConnectionLab, "is_crowded", request.param)


def test_frame_is_served_and_its_response_sent() -> None:
    lab = ConnectionLab()
    _, channel = lab.connect()
    channel.feed(framed(b"hello"))
    lab.loop.run()
    assert lab.frames == [b"hello"]
    assert channel.sent == framed(b"hello")


def test_empty_frame_is_a_frame() -> None:
    lab = ConnectionLab()
    _, channel = lab.connect()
    channel.feed(framed(b"") + framed(b"x"))
    lab.loop.run()
    assert lab.frames == [b"", b"x"]


def test_responses_are_sent_in_the_order_of_requests() -> None:
    lab = ConnectionLab(behave=keep_waiting)
    _, channel = lab.connect()
    channel.feed(framed(b"1") + framed(b"2") + framed(b"3"))
    lab.loop.run()
    first, second, third = lab.slots
    third.respond([b"three"])
    lab.loop.run()
    assert channel.sent == b""
    first.respond([b"one"])
    lab.loop.run()
    assert channel.sent == b"one"
    second.respond([b"two"])
    lab.loop.run()
    assert channel.sent == b"onetwothree"


def test_request_without_a_response_does_not_block_the_next() -> None:
    lab = ConnectionLab(behave=keep_waiting)
    connection, channel = lab.connect()
    channel.feed(framed(b"1") + framed(b"2"))
    lab.loop.run()
    first, second = lab.slots
    second.respond([b"two"])
    first.finish()
    lab.loop.run()
    assert channel.sent == b"two"
    assert connection.unanswered_count == 0


def test_request_cannot_be_answered_twice() -> None:
    lab = ConnectionLab()
    _, channel = lab.connect()
    channel.feed(framed(b"1"))
    lab.loop.run()
    with pytest.raises(AssertionError):
        lab.slots[0].finish()


def test_held_connection_serves_nothing_until_it_is_answered() -> None:
    lab = ConnectionLab(behave=lambda slot, _: slot.hold())
    _, channel = lab.connect()
    channel.feed(framed(b"1") + framed(b"2"), framed(b"3"))
    lab.loop.run()
    assert lab.frames == [b"1"]
    assert lab.loop.readers == {}, "a held connection is not read"
    lab.slots[0].respond([b"one"])
    lab.loop.run()
    assert lab.frames == [b"1", b"2"]
    assert channel.sent == b"one"
    lab.slots[1].finish()
    lab.loop.run()
    assert lab.frames == [b"1", b"2", b"3"]


def test_hold_after_the_response_has_no_effect() -> None:
    def answer_then_hold(slot: ResponseSlot, frame: memoryview) -> None:
        echo(slot, frame)
        slot.hold()

    lab = ConnectionLab(behave=answer_then_hold)
    _, channel = lab.connect()
    channel.feed(framed(b"1") + framed(b"2"))
    lab.loop.run()
    assert lab.frames == [b"1", b"2"]


def test_frame_is_invalid_after_serve_returns() -> None:
    kept: list[memoryview] = []
    lab = ConnectionLab(behave=lambda _, frame: kept.append(frame))
    _, channel = lab.connect()
    channel.feed(framed(b"1"))
    lab.loop.run()
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x65", b"GET "])
def test_invalid_size_closes_only_its_own_connection(size: bytes) -> None:
    lab = ConnectionLab(NetworkSettings(socket_request_max_bytes=100))
    bad, bad_channel = lab.connect()
    good, good_channel = lab.connect()
    bad_channel.feed(size)
    good_channel.feed(framed(b"x" * 100))
    lab.loop.run()
    assert bad.is_closed
    assert bad_channel.is_closed
    assert not good.is_closed
    assert good_channel.sent == framed(b"x" * 100)
    assert lab.closed_ones == [bad]
    assert lab.failures == []


def test_earlier_responses_are_sent_before_a_protocol_error_closes() -> None:
    lab = ConnectionLab()
    _, channel = lab.connect()
    channel.feed(framed(b"fine") + b"\xff\xff\xff\xff")
    lab.loop.run()
    assert channel.sent == framed(b"fine")
    assert channel.is_closed


def test_protocol_error_of_the_service_closes_the_connection_with_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(_slot: ResponseSlot, _frame: memoryview) -> None:
        raise ProtocolError("an unknown API")

    lab = ConnectionLab(behave=refuse)
    connection, channel = lab.connect()
    channel.feed(framed(b"1") + framed(b"2"))
    lab.loop.run()
    assert connection.is_closed
    assert lab.frames == [b"1"]
    assert lab.failures == []
    assert len(caplog.records) == 1
    assert "an unknown API" in caplog.text


def test_unexpected_error_of_the_service_is_reported_and_closes_the_connection() -> None:
    mistake = ZeroDivisionError("ours")

    def fail(_slot: ResponseSlot, _frame: memoryview) -> None:
        raise mistake

    lab = ConnectionLab(behave=fail)
    connection, channel = lab.connect()
    channel.feed(framed(b"1"))
    lab.loop.run()
    assert lab.failures == [mistake]
    assert connection.is_closed


def test_client_that_stops_reading_is_no_longer_read() -> None:
    limit = 10_000
    lab = ConnectionLab(NetworkSettings(headwater_connection_unsent_bytes_max=limit))
    connection, channel = lab.connect()
    channel.takes = 0
    request = framed(b"r" * 1_000)
    channel.feed(*[request] * 500)
    lab.loop.run()
    assert limit < connection.unsent_bytes <= limit + len(request)
    assert connection.buffer_bytes <= BUSY_BYTES
    assert lab.loop.readers == {}
    assert channel.unread_bytes > 400 * len(request)
    while channel.unread_bytes or connection.unsent_bytes:
        channel.takes = 1_700
        lab.loop.run()
        assert connection.unsent_bytes <= limit + len(request)
    assert channel.sent == request * 500
    assert lab.loop.writers == {}


def test_responses_that_wait_for_an_earlier_one_count_as_unsent() -> None:
    def answer_all_but_the_first(slot: ResponseSlot, frame: memoryview) -> None:
        if bytes(frame) != b"first":
            slot.respond([b"x" * 100])

    settings = NetworkSettings(headwater_connection_unsent_bytes_max=1_000)
    lab = ConnectionLab(settings, behave=answer_all_but_the_first)
    connection, channel = lab.connect()
    channel.feed(framed(b"first") + framed(b"") * 50)
    lab.loop.run()
    assert connection.unsent_bytes == 1_100
    assert len(lab.frames) == 12
    lab.slots[0].finish()
    lab.loop.run()
    assert len(lab.frames) == 51
    assert connection.unsent_bytes == 0


def test_unanswered_requests_per_connection_are_bounded() -> None:
    lab = ConnectionLab(NetworkSettings(headwater_connection_requests_max=5), keep_waiting)
    _, channel = lab.connect()
    channel.feed(framed(b"r") * 20)
    lab.loop.run()
    assert len(lab.frames) == 5
    lab.slots[0].finish()
    lab.loop.run()
    assert len(lab.frames) == 6


def test_busy_connection_leaves_time_for_others() -> None:
    """However much one client has sent, the other is served in the first iteration."""
    lab = ConnectionLab()
    _, busy = lab.connect()
    _, other = lab.connect()
    busy.feed(framed(b"b") * 800)
    other.feed(framed(b"o"))
    lab.loop.turn()
    assert b"o" in lab.frames
    assert lab.frames.count(b"b") < 100
    lab.loop.run()
    assert lab.frames.count(b"b") == 800


def test_requests_without_response_are_all_served_over_several_iterations() -> None:
    lab = ConnectionLab(behave=lambda slot, _: slot.finish())
    _, channel = lab.connect()
    channel.feed(framed(b"b") * 800)
    channel.end()
    lab.loop.run()
    assert len(lab.frames) == 800


@pytest.mark.parametrize(
    ("part", "at_once_bytes"),
    [(Range(7, 20_000_000), 1_048_577), (bytes(20_000_000), 262_144)],
    ids=["file", "bytes"],
)
def test_fast_reader_gets_much_at_once_and_leaves_time_for_others(
    part: Range | bytes, at_once_bytes: int
) -> None:
    """A mebibyte of a file; of memory, which has to be copied, a quarter of it."""
    lab = ConnectionLab(behave=lambda slot, _: slot.respond([b"h", part]))
    connection, channel = lab.connect()
    channel.feed(framed(b"fetch"))
    # With many connections, its response is sent in the second iteration.
    lab.loop.turn()
    if lab.is_crowded:
        lab.loop.turn()
    assert at_once_bytes <= len(channel.sent) <= 1.15 * at_once_bytes
    lab.loop.run()
    assert len(channel.sent) == 20_000_001
    assert connection.unsent_bytes == 0


def test_empty_range_is_released_without_being_sent() -> None:
    empty = Range(7, 0)
    lab = ConnectionLab(behave=lambda slot, _: slot.respond([b"", empty]))
    _, channel = lab.connect()
    channel.feed(framed(b"fetch"))
    lab.loop.run()
    assert empty.release_count == 1
    assert channel.sent == b""


def test_response_that_cannot_be_sent_is_reported_and_closes_the_connection() -> None:
    class Lost(Range):
        def fileno(self) -> int:
            raise ValueError("no such file")

    lost = Lost(7, 10)
    lab = ConnectionLab(behave=lambda slot, _: slot.respond([b"h", lost]))
    connection, channel = lab.connect()
    channel.feed(framed(b"fetch"))
    lab.loop.run()
    assert connection.is_closed
    assert [str(failure) for failure in lab.failures] == ["no such file"]
    assert lost.release_count == 1


def test_range_is_released_once_when_it_is_sent() -> None:
    sent = Range(7, 10)
    lab = ConnectionLab(behave=lambda slot, _: slot.respond([b"ab", sent, b"cd"]))
    connection, channel = lab.connect()
    channel.takes = 5
    channel.feed(framed(b"fetch"))
    lab.loop.run()
    assert sent.release_count == 0
    assert channel.sent == b"ab\7\7\7"
    channel.takes = 100
    lab.loop.run()
    assert channel.sent == b"ab" + b"\7" * 10 + b"cd"
    assert sent.release_count == 1
    connection.close()
    assert sent.release_count == 1


def test_ranges_are_released_once_when_the_connection_closes() -> None:
    """Half sent, waiting behind an unanswered request, and answered too late."""
    half, blocked, late = Range(1, 10), Range(2, 10), Range(3, 10)
    lab = ConnectionLab(behave=keep_waiting)
    connection, channel = lab.connect()
    channel.takes = 5
    channel.feed(framed(b"1") + framed(b"2") + framed(b"3"))
    lab.loop.run()
    first, second, third = lab.slots
    first.respond([half])
    third.respond([blocked])
    lab.loop.run()
    channel.is_broken = True
    lab.loop.run()
    assert connection.is_closed
    second.respond([late])
    assert [half.release_count, blocked.release_count, late.release_count] == [1, 1, 1]
    connection.close()
    assert lab.closed_ones == [connection]
    assert [half.release_count, blocked.release_count, late.release_count] == [1, 1, 1]


def test_half_closed_client_still_gets_its_responses() -> None:
    lab = ConnectionLab(behave=keep_waiting)
    connection, channel = lab.connect()
    channel.feed(framed(b"1") + framed(b"2"), b"\0\0")
    channel.end()
    lab.loop.run()
    assert not connection.is_closed
    lab.slots[1].respond([b"two"])
    lab.slots[0].respond([b"one"])
    lab.loop.run()
    assert channel.sent == b"onetwo"
    assert connection.is_closed


def test_client_without_pending_responses_closes_the_connection() -> None:
    lab = ConnectionLab()
    connection, channel = lab.connect()
    channel.feed(framed(b"1"))
    channel.end()
    lab.loop.run()
    assert connection.is_closed
    assert channel.sent == framed(b"1")


def test_reset_closes_the_connection_despite_pending_responses() -> None:
    lab = ConnectionLab(behave=keep_waiting)
    connection, channel = lab.connect()
    channel.feed(framed(b"1"))
    lab.loop.run()
    channel.is_broken = True
    lab.loop.run()
    assert connection.is_closed
    lab.slots[0].respond([b"too late"])
    assert channel.sent == b""


def test_muted_connection_is_served_when_its_time_has_come() -> None:
    lab = ConnectionLab()
    connection, channel = lab.connect()
    connection.mute(until_ms=500)
    channel.feed(framed(b"1"))
    lab.loop.run()
    lab.sweep(499)
    lab.loop.run()
    assert lab.frames == []
    lab.sweep(500)
    lab.loop.run()
    assert lab.frames == [b"1"]
    assert lab.to_sweep == {}


def test_connection_is_muted_for_the_longer_of_two_times_and_unmuted_without_a_sweep() -> None:
    lab = ConnectionLab()
    connection, channel = lab.connect()
    connection.mute(until_ms=500)
    connection.mute(until_ms=300)
    channel.feed(framed(b"1"))
    connection.unmute(499)
    lab.loop.run()
    assert lab.frames == []
    connection.unmute(500)
    lab.loop.run()
    assert lab.frames == [b"1"]


def test_connection_muted_while_serving_still_sends_that_response() -> None:
    def answer_and_mute(slot: ResponseSlot, frame: memoryview) -> None:
        echo(slot, frame)
        slot.connection.mute(until_ms=10)

    lab = ConnectionLab(behave=answer_and_mute)
    _, channel = lab.connect()
    channel.feed(framed(b"1") + framed(b"2"))
    channel.end()
    lab.loop.run()
    assert channel.sent == framed(b"1")
    assert not channel.is_closed
    lab.sweep(10)
    lab.loop.run()
    assert channel.sent == framed(b"1") + framed(b"2")


def test_requests_before_the_end_of_the_stream_survive_a_mute() -> None:
    """Also when they are so many that they take several iterations."""

    def mute_once(slot: ResponseSlot, _: memoryview) -> None:
        slot.finish()
        if len(lab.frames) == 150:
            slot.connection.mute(until_ms=10)

    lab = ConnectionLab(behave=mute_once)
    connection, channel = lab.connect()
    channel.feed(framed(b"r") * 200)
    channel.end()
    lab.loop.run()
    assert len(lab.frames) == 150
    lab.sweep(10)
    lab.loop.run()
    assert len(lab.frames) == 200
    assert connection.is_closed


def test_leaving_connection_accepts_no_requests_and_closes_when_all_is_sent() -> None:
    lab = ConnectionLab(behave=keep_waiting)
    connection, channel = lab.connect()
    channel.feed(framed(b"1"))
    lab.loop.run()
    connection.drain()
    channel.feed(framed(b"2"))
    lab.loop.run()
    assert not connection.is_closed
    channel.takes = 2
    lab.slots[0].respond([b"one"])
    lab.loop.run()
    assert not connection.is_closed
    channel.takes = None
    lab.loop.run()
    assert connection.is_closed
    assert channel.sent == b"one"
    assert lab.frames == [b"1"]


def test_service_may_close_the_connection_it_serves() -> None:
    lab = ConnectionLab(behave=lambda slot, _: slot.connection.close())
    connection, channel = lab.connect()
    channel.feed(framed(b"1") + framed(b"2"))
    lab.loop.run()
    assert lab.frames == [b"1"]
    assert lab.closed_ones == [connection]


def test_memory_of_a_large_frame_is_released_after_an_idle_sweep() -> None:
    lab = ConnectionLab(behave=lambda slot, _: slot.finish())
    connection, channel = lab.connect()
    assert connection.buffer_bytes == SMALL_BYTES
    channel.feed(framed(b"x" * 1_000_000))
    lab.loop.run()
    assert connection.buffer_bytes >= 1_000_000
    assert lab.inflight_bytes.buffer_bytes.used == 1_000_004
    lab.sweep(1_000)
    assert connection.buffer_bytes >= 1_000_000, "it was active since the last sweep"
    lab.sweep(2_000)
    assert connection.buffer_bytes == SMALL_BYTES
    assert lab.inflight_bytes.buffer_bytes.used == 0
    assert lab.to_sweep == {}
    channel.feed(framed(b"y" * 2_000_000))
    lab.loop.run()
    assert lab.frames[-1] == b"y" * 2_000_000


def test_buffered_requests_survive_an_idle_sweep() -> None:
    lab = ConnectionLab(behave=lambda slot, _: slot.hold())
    connection, channel = lab.connect()
    requests = [bytes([number]) * 1_000 for number in range(20)]
    channel.feed(framed(bytes(4_092)), b"".join(map(framed, requests)))
    lab.loop.run()
    lab.slots[0].finish()
    lab.loop.run()
    assert connection.buffer_bytes == BUSY_BYTES
    lab.sweep(1_000)
    lab.sweep(2_000)
    for number in range(20):
        lab.slots[number + 1].finish()
        lab.loop.run()
        lab.sweep(2_000 * (number + 2))
    assert lab.frames[1:] == requests
    assert connection.buffer_bytes == SMALL_BYTES


def test_size_field_alone_costs_no_memory() -> None:
    lab = ConnectionLab()
    connection, channel = lab.connect()
    channel.feed(b"\6\0\0\0", *[b"x"] * 1_000)
    lab.loop.run()
    assert connection.buffer_bytes == SMALL_BYTES


def test_large_frames_wait_for_memory() -> None:
    """queued.max.request.bytes: one frame may exceed it, a second one waits."""
    settings = NetworkSettings(queued_max_request_bytes=100_000)
    lab = ConnectionLab(settings, behave=lambda slot, _: slot.finish())
    first, first_channel = lab.connect()
    second, second_channel = lab.connect()
    third, third_channel = lab.connect()
    large = framed(b"x" * 150_000)
    first_channel.feed(large[:80_000])
    lab.loop.run()
    second_channel.feed(large)
    third_channel.feed(framed(b"small"))
    lab.loop.run()
    assert lab.frames == [b"small"]
    assert second.buffer_bytes <= BUSY_BYTES
    assert second_channel.unread_bytes > 0
    first_channel.feed(large[80_000:])
    lab.loop.run()
    assert len(lab.frames) == 3
    first.close()
    second.close()
    third.close()
    assert lab.inflight_bytes.buffer_bytes.used == 0


def test_overlapping_requests_are_bounded_but_each_connection_has_its_first() -> None:
    """queued.max.requests: a delayed fetch must not keep others from being served."""
    lab = ConnectionLab(NetworkSettings(queued_max_requests=3), behave=keep_waiting)
    pairs = [lab.connect() for _ in range(5)]
    for _, channel in pairs:
        channel.feed(framed(b"r") * 4)
    lab.loop.run()
    assert sorted(connection.unanswered_count for connection, _ in pairs) == [1, 1, 1, 1, 4]
    assert lab.inflight_bytes.overlapping_requests.used == 3
    for _ in range(100):
        lab.loop.run()
        waiting = [slot for slot in lab.slots if slot.parts is None]
        if not waiting:
            break
        waiting[0].respond([b"a"])
        assert lab.inflight_bytes.overlapping_requests.used <= 3
    assert [bytes(channel.sent) for _, channel in pairs] == [b"aaaa"] * 5
    assert lab.inflight_bytes.overlapping_requests.used == 0


def test_closed_connection_makes_room_for_waiting_ones() -> None:
    lab = ConnectionLab(NetworkSettings(queued_max_requests=2), behave=keep_waiting)
    greedy, greedy_channel = lab.connect()
    _, other_channel = lab.connect()
    greedy_channel.feed(framed(b"g") * 3)
    lab.loop.run()
    other_channel.feed(framed(b"o") * 2)
    lab.loop.run()
    assert lab.frames == [b"g", b"g", b"g", b"o"]
    greedy.close()
    lab.loop.run()
    assert lab.frames == [b"g", b"g", b"g", b"o", b"o"]


def test_many_ready_connections_are_all_served_before_any_response_is_sent() -> None:
    lab = ConnectionLab()
    lab.is_crowded = True
    channels = [lab.connect()[1] for _ in range(5)]
    for number, channel in enumerate(channels):
        channel.feed(framed(b"%d" % number))
    lab.loop.turn()
    assert len(lab.frames) == 5
    assert all(channel.sent == b"" for channel in channels)
    lab.loop.turn()
    assert [channel.sent for channel in channels] == [framed(b"%d" % each) for each in range(5)]


def test_large_batch_of_one_of_many_connections_is_answered_at_once() -> None:
    lab = ConnectionLab()
    lab.is_crowded = True
    _, channel = lab.connect()
    large = framed(bytes(SMALL_BYTES))
    channel.feed(large)
    lab.loop.run()
    channel.feed(large)
    lab.loop.turn()
    assert channel.sent == 2 * large


def test_few_ready_connections_are_answered_at_once() -> None:
    lab = ConnectionLab()
    lab.is_crowded = False
    _, channel = lab.connect()
    channel.feed(framed(b"now"))
    lab.loop.turn()
    assert channel.sent == framed(b"now")


def test_guard_replaces_the_service_and_limits_frames() -> None:
    lab = ConnectionLab()
    guard = ConnectionLab()
    connection, channel = lab.connect()
    connection.set_service(guard, frame_limit_bytes=10)
    channel.feed(framed(b"0123456789"))
    lab.loop.run()
    assert (guard.frames, lab.frames) == ([b"0123456789"], [])
    connection.set_service(lab, frame_limit_bytes=20)
    channel.feed(framed(b"0123456789ABCDEF"))
    lab.loop.run()
    assert lab.frames == [b"0123456789ABCDEF"]
    connection.set_service(guard, frame_limit_bytes=10)
    channel.feed(framed(b"0123456789A"))
    lab.loop.run()
    assert connection.is_closed
    assert guard.closed_ones == [connection]


def test_repeated_protocol_errors_of_a_host_do_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lab = ConnectionLab()
    for _ in range(1_000):
        _, channel = lab.connect()
        channel.feed(b"\xff" * 8)
        lab.loop.turn()
        assert channel.is_closed
    assert len(caplog.messages) == LINES_MAX
    caplog.clear()
    lab.closed_connection_log.sweep()
    assert caplog.messages == [
        "Closed more connections after protocol errors: count=990 host=192.0.2.1"
    ]
    caplog.clear()
    lab.closed_connection_log.sweep()
    assert not caplog.messages
