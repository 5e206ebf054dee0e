"""Outgoing connections: responses in order, and each request completed exactly once."""

import asyncio
import socket
import struct

import pytest

from headwater.common.exceptions import ConnectionLost, RequestTimedOut
from headwater.network.peer import Peer, PeerSettings, SocketAddress, resolve
from headwater.network.receive_buffer import SMALL_BYTES
from tests.simulation.fakes.scripted_network import ScriptedTransportLayer, SteppedLoop
from tests.simulation.labs.connection_lab import framed
from tests.unit.network.real_sockets import TIMEOUT_S, running


def message(correlation_id: int, content: bytes = b"") -> bytes:
    return framed(struct.pack(">i", correlation_id) + content)


class PeerLab:
    """A peer on a scripted channel, and its callbacks."""

    def __init__(self, settings: PeerSettings | None = None) -> None:
        self.loop = SteppedLoop()
        self.channel = ScriptedTransportLayer()
        self.loop.watch(self.channel)
        self.downs: list[ConnectionLost] = []
        self.answers: list[tuple[int, bytes]] = []
        self.losses: list[tuple[int, ConnectionLost]] = []
        self.peer = Peer(
            self.loop,
            settings or PeerSettings(),
            on_connected=lambda: None,
            on_disconnected=self.downs.append,
        )
        self.peer.adopt(self.channel)

    def ask(self, correlation_id: int, deadline_ms: int = 1_000) -> None:
        self.peer.send_request(
            correlation_id,
            [message(correlation_id)],
            deadline_ms=deadline_ms,
            then=lambda frame: self.answers.append((correlation_id, bytes(frame[4:]))),
            on_error=lambda lost: self.losses.append((correlation_id, lost)),
        )


def test_responses_match_their_requests() -> None:
    lab = PeerLab()
    lab.ask(7)
    lab.ask(8)
    lab.loop.run()
    assert lab.channel.sent == message(7) + message(8)
    lab.channel.feed(message(7, b"seven")[:6], message(7, b"seven")[6:] + message(8, b"eight"))
    lab.loop.run()
    assert lab.answers == [(7, b"seven"), (8, b"eight")]
    assert lab.peer.in_flight_count == 0


def test_requests_in_flight_are_bounded() -> None:
    lab = PeerLab(PeerSettings(max_in_flight_requests_per_connection=2))
    lab.ask(1)
    assert lab.peer.may_send
    lab.ask(2)
    assert not lab.peer.may_send
    lab.channel.feed(message(1))
    lab.loop.run()
    assert lab.peer.may_send


def test_frames_without_response_are_bounded_by_unsent_bytes() -> None:
    lab = PeerLab()
    lab.channel.takes = 0
    told = 0
    while lab.peer.may_send:
        lab.peer.send_without_response([bytes(100_000)])
        told += 1
    assert told == 11
    lab.channel.takes = None
    lab.loop.run()
    assert len(lab.channel.sent) == told * 100_000
    assert lab.peer.may_send


@pytest.mark.parametrize(
    "answer",
    [message(2), message(1) + message(2), framed(b"abc"), b"\xff\xff\xff\xff"],
    ids=["another's", "one too many", "too short", "a negative size"],
)
def test_malformed_response_closes_the_connection(answer: bytes) -> None:
    lab = PeerLab()
    lab.ask(1)
    lab.channel.feed(answer)
    lab.loop.run()
    assert lab.peer.is_closed
    assert len(lab.downs) == 1
    assert len(lab.answers) + len(lab.losses) == 1


def test_request_timeout_closes_the_connection_and_fails_all_requests() -> None:
    lab = PeerLab()
    lab.ask(1, deadline_ms=900)
    lab.ask(2, deadline_ms=500)
    lab.peer.sweep(499)
    assert not lab.peer.is_closed
    lab.peer.sweep(500)
    assert lab.channel.is_closed
    assert [number for number, _ in lab.losses] == [1, 2]
    assert isinstance(lab.downs[0], RequestTimedOut)
    lab.peer.close()
    assert len(lab.downs) == 1


@pytest.mark.parametrize("how", ["end", "reset"])
def test_lost_connection_fails_all_requests_once(how: str) -> None:
    lab = PeerLab()
    lab.ask(1)
    lab.ask(2)
    lab.loop.run()
    if how == "end":
        lab.channel.end()
    else:
        lab.channel.is_broken = True
    lab.loop.run()
    assert [number for number, _ in lab.losses] == [1, 2]
    assert len(lab.downs) == 1
    assert not lab.peer.may_send


def test_error_in_a_callback_is_raised_and_leaves_no_request_hanging() -> None:
    def stumble(_: memoryview) -> None:
        raise IndexError("ours")

    lab = PeerLab()
    lab.peer.send_request(
        1,
        [message(1)],
        deadline_ms=1_000,
        then=stumble,
        on_error=lambda _: None,
    )
    lab.ask(2)
    lab.channel.feed(message(1) + message(2))
    with pytest.raises(IndexError):
        lab.loop.run()
    assert [number for number, _ in lab.losses] == [2]


def test_large_response_arrives_whole_and_its_memory_is_released() -> None:
    lab = PeerLab()
    lab.ask(1)
    lab.channel.feed(message(1, b"x" * 1_000_000))
    lab.loop.run()
    assert lab.answers == [(1, b"x" * 1_000_000)]
    lab.peer.sweep(1)
    assert lab.peer.buffer_bytes == SMALL_BYTES


def test_kept_frame_outlives_later_responses() -> None:
    lab = PeerLab()
    kept: list[memoryview] = []

    def keep(frame: memoryview) -> None:
        assert lab.peer.keep_frame()
        kept.append(frame[4:])

    for number in (1, 2, 3):
        lab.peer.send_request(
            number,
            [message(number)],
            deadline_ms=1_000,
            then=keep,
            on_error=lambda _: None,
        )
        lab.channel.feed(message(number, bytes([number]) * 300_000))
        lab.loop.run()
    assert kept == [bytes([number]) * 300_000 for number in (1, 2, 3)]


def test_small_frame_in_a_large_buffer_is_not_kept() -> None:
    lab = PeerLab()
    lab.ask(1)
    lab.channel.feed(message(1, bytes(1_000_000)))
    lab.loop.run()
    outcomes: list[bool] = []
    lab.peer.send_request(
        2,
        [message(2)],
        deadline_ms=1_000,
        then=lambda _: outcomes.append(lab.peer.keep_frame()),
        on_error=lambda _: None,
    )
    lab.channel.feed(message(2, bytes(1_000)))
    lab.loop.run()
    assert outcomes == [False]


def test_peer_and_server_exchange_frames() -> None:
    async def run() -> None:
        async with running() as broker:
            loop = asyncio.get_running_loop()
            up, answered = loop.create_future(), loop.create_future()
            lost: list[ConnectionLost] = []
            peer = Peer(
                loop,
                PeerSettings(),
                on_connected=lambda: up.set_result(None),
                on_disconnected=lost.append,
            )
            (where,) = await resolve(loop, "127.0.0.1", broker.bound.port)
            peer.connect(where, deadline_ms=1_000)
            assert not peer.may_send
            await asyncio.wait_for(up, TIMEOUT_S)
            request = message(5, b"x" * 3_000_000)
            peer.send_request(
                5,
                [request],
                deadline_ms=1_000,
                then=lambda frame: answered.set_result(framed(bytes(frame))),
                on_error=lost.append,
            )
            assert await asyncio.wait_for(answered, TIMEOUT_S) == request
            peer.close()
            await broker.service.until(lambda: broker.service.closed_count == 1)
            assert [str(reason) for reason in lost] == ["closed by this side"]

    asyncio.run(run())


def test_refused_connection_is_reported_later_and_once() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        # Bound and not listening: no other process can take the port, and it refuses.
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            down = loop.create_future()
            peer = Peer(
                loop, PeerSettings(), on_connected=lambda: None, on_disconnected=down.set_result
            )
            where = SocketAddress(family=socket.AF_INET, address=deaf.getsockname())
            peer.connect(where, deadline_ms=1_000)
            assert not down.done()
            lost = await asyncio.wait_for(down, TIMEOUT_S)
            assert isinstance(lost, ConnectionLost)
            assert peer.is_closed

    asyncio.run(run())


def test_connection_attempt_times_out() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        downs: list[ConnectionLost] = []
        async with running() as broker:
            peer = Peer(
                loop, PeerSettings(), on_connected=lambda: None, on_disconnected=downs.append
            )
            (where,) = await resolve(loop, "127.0.0.1", broker.bound.port)
            peer.connect(where, deadline_ms=1_000)
            peer.sweep(1_000)
            assert [type(lost) for lost in downs] == [RequestTimedOut]

    asyncio.run(run())


def test_unresolved_host_is_a_named_error() -> None:
    async def run() -> None:
        with pytest.raises(ConnectionLost, match="cannot resolve"):
            await resolve(asyncio.get_running_loop(), "no-such-host.invalid", 9092)

    asyncio.run(run())
