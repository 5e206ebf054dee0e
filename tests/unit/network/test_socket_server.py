"""The server on real sockets: listeners, limits, files, floods and shutdown."""

import asyncio
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headwater.common.exceptions import CannotListen
from headwater.network.closing import CLOSE_TIMEOUT_MS
from headwater.network.connection import Connection
from headwater.network.endpoint import Endpoint, parse_endpoints
from headwater.network.event_loop import (
    CountingLoop,
    call_soon_from_threads,
    crowded_check,
    new_loop,
)
from headwater.network.limits.connection_creation_rate import ThrottledConnections
from headwater.network.network_settings import NetworkSettings
from headwater.network.receive_buffer import SMALL_BYTES
from headwater.network.request_service import ResponseSlot
from headwater.network.socket_server import SocketServer
from tests.simulation.fakes.scripted_network import SteppedLoop
from tests.simulation.labs.connection_lab import echo, framed, keep_waiting
from tests.unit.network.real_sockets import TIMEOUT_S, OpenRange, RecordedService, running

HAS_IPV6 = Path("/proc/net/if_inet6").exists() and bool(Path("/proc/net/if_inet6").read_text())
needs_ipv6 = pytest.mark.skipif(not HAS_IPV6, reason="this machine has no IPv6")


def test_request_over_tcp_is_answered() -> None:
    async def run() -> None:
        async with running() as broker:
            client = await broker.connect()
            assert await client.ask(b"hello") == b"hello"
            assert await client.ask(b"") == b""

    asyncio.run(run())


@needs_ipv6
def test_ipv6_is_served() -> None:
    async def run() -> None:
        async with running(host="::1") as broker:
            client = await broker.connect()
            assert await client.ask(b"hello") == b"hello"
            assert broker.server.connections[0].address.peer_host == "::1"

    asyncio.run(run())


def test_empty_host_serves_ipv4_with_ipv4_addresses() -> None:
    async def run() -> None:
        async with running(host="") as broker:
            client = await broker.connect()
            assert await client.ask(b"hello") == b"hello"
            assert broker.server.connections[0].address.peer_host == "127.0.0.1"

    asyncio.run(run())


def test_listeners_are_distinguished_by_name() -> None:
    async def run() -> None:
        def name_it(slot: ResponseSlot, _: memoryview) -> None:
            slot.respond([framed(slot.connection.address.listener.encode())])

        service = RecordedService(name_it)
        loop = asyncio.get_running_loop()
        server = SocketServer(loop, NetworkSettings(), service, now_ms=0)
        bound = server.bind(parse_endpoints("INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"))
        server.start()
        assert bound[0].port != bound[1].port
        for endpoint in bound:
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writer.write(framed(b"who?"))
            answer = framed(endpoint.name.encode())
            assert await asyncio.wait_for(reader.readexactly(len(answer)), TIMEOUT_S) == answer
            writer.close()
            await writer.wait_closed()
        await server.stop(drain_ms=0)

    asyncio.run(run())


@needs_ipv6
def test_ipv4_and_ipv6_listener_share_a_port() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        service = RecordedService(echo)
        probe = SocketServer(loop, NetworkSettings(), service, now_ms=0)
        (free,) = probe.bind([Endpoint(name="A", host="", port=0)])
        await probe.stop(drain_ms=0)
        server = SocketServer(loop, NetworkSettings(), service, now_ms=0)
        both = parse_endpoints(f"A://0.0.0.0:{free.port},B://[::]:{free.port}")
        assert server.bind(both) == both
        await server.stop(drain_ms=0)

    asyncio.run(run())


def test_port_in_use_is_a_named_error_and_nothing_stays_bound() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with running() as broker:
            second = SocketServer(loop, NetworkSettings(), broker.service, now_ms=0)
            taken = Endpoint(name="B", host="127.0.0.1", port=broker.bound.port)
            with pytest.raises(CannotListen, match=f"B://127.0.0.1:{broker.bound.port}"):
                second.bind([Endpoint(name="A", host="127.0.0.1", port=0), taken])

    asyncio.run(run())


@pytest.mark.parametrize("length", [1, 5_000_000])
def test_file_ranges_arrive_byte_for_byte(tmp_path: Path, length: int) -> None:
    """Also if they are many times larger than the socket's buffer."""
    path = tmp_path / "00000000000000000000.log"
    content = os.urandom(length + 1_000)
    path.write_bytes(content)
    ranges: list[OpenRange] = []

    def fetch(slot: ResponseSlot, _: memoryview) -> None:
        ranges.append(OpenRange(path, 700, length))
        ranges.append(OpenRange(path, 0, 10))
        slot.respond([b"head", b"er", *ranges[-2:], memoryview(b"trailer")])

    async def run() -> None:
        async with running(behave=fetch) as broker:
            client = await broker.connect(receive_buffer_bytes=8_192)
            await client.send(framed(b"fetch") * 2)
            answer = b"header" + content[700 : 700 + length] + content[:10] + b"trailer"
            assert await client.receive(2 * len(answer)) == answer * 2
            assert [part.release_count for part in ranges] == [1, 1, 1, 1]

    asyncio.run(run())


def test_response_of_very_many_parts_arrives_whole() -> None:
    """More parts than the system takes in one call."""
    parts = [bytes([number % 256]) * 3 for number in range(5_000)]

    async def run() -> None:
        async with running(behave=lambda slot, _: slot.respond(parts)) as broker:
            client = await broker.connect()
            await client.send(framed(b"fetch"))
            assert await client.receive(15_000) == b"".join(parts)

    asyncio.run(run())


def test_file_that_ends_before_its_range_closes_the_connection(tmp_path: Path) -> None:
    """The size was sent already; anything else would be taken for the next response."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"short")
    part = OpenRange(path, 0, 10)

    async def run() -> None:
        async with running(behave=lambda slot, _: slot.respond([part])) as broker:
            client = await broker.connect()
            await client.send(framed(b"fetch"))
            assert await client.receive(10) == b"short"
            assert await client.sees_the_end()
            assert part.release_count == 1

    asyncio.run(run())


def test_client_that_disconnects_within_a_file_leaves_no_open_file(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(5_000_000))
    part = OpenRange(path, 0, 5_000_000)

    async def run() -> None:
        async with running(behave=lambda slot, _: slot.respond([part])) as broker:
            client = await broker.connect(receive_buffer_bytes=8_192)
            await client.send(framed(b"fetch"))
            await client.receive(100)
            # A reset and not a FIN: what is unread is discarded.
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.socket.close()
            await broker.service.until(lambda: broker.service.closed_count == 1)
            assert part.release_count == 1

    asyncio.run(run())


def test_client_that_does_not_read_is_not_read_and_memory_stays_bounded() -> None:
    limit = 200_000

    async def run() -> None:
        settings = NetworkSettings(headwater_connection_unsent_bytes_max=limit)
        async with running(settings) as broker:
            client = await broker.connect(receive_buffer_bytes=8_192)
            request = framed(b"r" * 50_000)
            loop = asyncio.get_running_loop()
            sending = loop.create_task(loop.sock_sendall(client.socket, request * 200))
            await broker.service.until(lambda: broker.server.connections[0].unsent_bytes > limit)
            (connection,) = broker.server.connections
            assert connection.unsent_bytes <= limit + len(request)
            assert connection.buffer_bytes < 10 * len(request)
            assert len(broker.service.slots) < 100
            assert not sending.done()
            assert await client.receive(200 * len(request)) == request * 200
            await asyncio.wait_for(sending, TIMEOUT_S)

    asyncio.run(run())


def test_half_closed_client_gets_its_response_and_then_the_end() -> None:
    async def run() -> None:
        async with running(behave=keep_waiting) as broker:
            client = await broker.connect()
            await client.send(framed(b"last words"))
            client.socket.shutdown(socket.SHUT_WR)
            await broker.service.until(lambda: len(broker.service.slots) == 1)
            asyncio.get_running_loop().call_soon(broker.service.slots[0].respond, [b"reply"])
            assert await client.receive(100) == b"reply"
            assert broker.service.closed_count == 1

    asyncio.run(run())


def test_malformed_bytes_close_their_connection_only() -> None:
    async def run() -> None:
        async with running() as broker:
            good = await broker.connect()
            for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, b"\x16\x03\x01\x02\x00\x01"):
                bad = await broker.connect()
                await bad.send(garbage)
                if garbage[0] != 0x16:
                    assert await bad.sees_the_end()
                assert await good.ask(b"still there?") == b"still there?"

    asyncio.run(run())


def test_thousand_connections_are_open_at_once() -> None:
    async def run() -> None:
        async with running() as broker:
            clients = [await broker.connect() for _ in range(1_000)]
            for client in clients:
                await client.send(framed(b"ping"))
            for client in clients:
                assert await client.receive(8) == framed(b"ping")
            assert len(broker.server.connections) == 1_000
            assert {connection.buffer_bytes for connection in broker.server.connections} == {
                SMALL_BYTES
            }
            for client in clients[:500]:
                client.socket.close()
            await broker.service.until(lambda: broker.service.closed_count == 500)
            assert len(broker.server.connections) == 500

    asyncio.run(run())


@pytest.mark.parametrize(
    "settings",
    [
        NetworkSettings(max_connections=2),
        NetworkSettings(max_connections_per_ip=2),
        NetworkSettings(
            max_connections_per_ip=9, max_connections_per_ip_overrides={"127.0.0.1": 2}
        ),
        NetworkSettings(max_connections_of_listeners={"PLAINTEXT": 2}),
    ],
)
def test_connection_above_a_limit_is_closed_at_once_and_a_later_one_is_not(
    settings: NetworkSettings,
) -> None:
    async def run() -> None:
        async with running(settings) as broker:
            first, second = await broker.connect(), await broker.connect()
            assert await first.ask(b"1") == b"1"
            assert await second.ask(b"2") == b"2"
            third = await broker.connect()
            assert await third.sees_the_end()
            first.socket.close()
            await broker.service.until(lambda: broker.service.closed_count == 1)
            fourth = await broker.connect()
            assert await fourth.ask(b"4") == b"4"

    asyncio.run(run())


def test_protected_listener_is_open_when_the_server_is_full() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        settings = NetworkSettings(max_connections=1, max_connection_creation_rate=1)
        service = RecordedService(echo)
        server = SocketServer(loop, settings, service, now_ms=0, protected="BROKERS")
        clients, brokers = server.bind(
            parse_endpoints("CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0")
        )
        server.start()
        streams = []
        for port in (clients.port, brokers.port, brokers.port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            streams.append(writer)
            writer.write(framed(b"hello"))
            answer = await asyncio.wait_for(reader.readexactly(9), TIMEOUT_S)
            assert answer == framed(b"hello")
        for writer in streams:
            writer.close()
            await writer.wait_closed()
        await server.stop(drain_ms=0)

    asyncio.run(run())


def test_connections_above_the_rate_wait_in_the_backlog() -> None:
    """max.connection.creation.rate: as in Kafka, they are delayed and not rejected."""

    async def run() -> None:
        async with running(NetworkSettings(max_connection_creation_rate=2)) as broker:
            clients = [await broker.connect() for _ in range(4)]
            for client in clients:
                await client.send(framed(b"r"))
            assert await clients[0].receive(5) == framed(b"r")
            assert await clients[1].receive(5) == framed(b"r")
            assert len(broker.server.connections) == 2
            broker.server.sweep(500)
            assert await clients[2].receive(5) == framed(b"r")
            assert len(broker.server.connections) == 3
            broker.server.sweep(1_000)
            assert await clients[3].receive(5) == framed(b"r")

    asyncio.run(run())


class _EverySecondOne:
    """`ConnectionQuota` that accepts every second connection."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def throttle_ms(self, host: str, now_ms: int) -> int:
        self.asked.append((host, now_ms))
        return 0 if len(self.asked) % 2 else 700


def test_throttled_connection_is_held_without_response_and_then_closed() -> None:
    """KIP-612: a client that is disconnected at once reconnects at once."""

    async def run() -> None:
        async with running() as broker:
            quota = broker.server.connection_quota = _EverySecondOne()
            welcome, early = await broker.connect(), await broker.connect()
            assert await welcome.ask(b"1") == b"1"
            await early.send(framed(b"2"))
            late = await broker.connect()
            assert await late.ask(b"3") == b"3"
            assert quota.asked == [("127.0.0.1", 0)] * 3
            assert len(broker.server.throttled_connections) == 1
            broker.server.sweep(699)
            assert len(broker.server.throttled_connections) == 1
            broker.server.sweep(700)
            assert await early.sees_the_end()
            assert len(broker.server.connections) == 2

    asyncio.run(run())


def test_number_of_throttled_connections_is_bounded() -> None:
    held = ThrottledConnections(limit=2)
    pairs = [socket.socketpair() for _ in range(3)]
    for number, (mine, _) in enumerate(pairs):
        held.add(mine, until_ms=100 + number)
    assert [mine.fileno() >= 0 for mine, _ in pairs] == [False, True, True]
    held.close()
    assert len(held) == 0
    assert held.count == 3
    for _, other in pairs:
        other.close()


def test_lingering_connection_counts_until_it_is_closed() -> None:
    """So does a client that fails authentication; otherwise it could hold any number of
    descriptors.
    """

    def dismiss(slot: ResponseSlot, frame: memoryview) -> None:
        echo(slot, frame)
        connection = slot.connection
        assert isinstance(connection, Connection)
        connection.drain()

    async def run() -> None:
        async with running(NetworkSettings(max_connections=1), behave=dismiss) as broker:
            client = await broker.connect()
            assert await client.ask(b"a wrong password") == b"a wrong password"
            assert await client.sees_the_end()
            # It does not close.
            assert await (await broker.connect()).sees_the_end()
            broker.server.sweep(CLOSE_TIMEOUT_MS)
            assert await (await broker.connect()).ask(b"hello") == b"hello"

    asyncio.run(run())


def test_idle_connections_are_closed_and_others_are_not() -> None:
    async def run() -> None:
        settings = NetworkSettings(connections_max_idle_ms=10_000)

        def answer_unless_asked_to_wait(slot: ResponseSlot, frame: memoryview) -> None:
            if bytes(frame) != b"wait":
                echo(slot, frame)

        async with running(settings, answer_unless_asked_to_wait) as broker:
            idle, active, waiting = [await broker.connect() for _ in range(3)]
            await waiting.send(framed(b"wait"))
            assert await idle.ask(b"1") == b"1"
            broker.server.sweep(9_000)
            assert await active.ask(b"2") == b"2"
            broker.server.sweep(11_000)
            assert await idle.sees_the_end()
            assert await active.ask(b"3") == b"3"
            assert len(broker.server.connections) == 2
            broker.server.sweep(30_000)
            assert await active.sees_the_end()
            # This one has a pending response, however long it takes.
            assert len(broker.server.connections) == 1

    asyncio.run(run())


def test_stop_sends_pending_responses_and_rejects_new_requests() -> None:
    async def run() -> None:
        async with running(behave=keep_waiting) as broker:
            idle, owed = await broker.connect(), await broker.connect()
            await owed.send(framed(b"produce"))
            await broker.service.until(lambda: len(broker.service.slots) == 1)
            stopping = asyncio.create_task(broker.server.stop(drain_ms=TIMEOUT_S * 1_000))
            assert await idle.sees_the_end()
            with pytest.raises(ConnectionRefusedError):
                await broker.connect()
            assert not stopping.done()
            broker.service.slots[0].respond([b"stored"])
            assert await owed.receive(100) == b"stored"
            await asyncio.wait_for(stopping, TIMEOUT_S)

    asyncio.run(run())


def test_client_that_still_sends_reads_the_responses_before_the_stop() -> None:
    async def run() -> None:
        async with running() as broker:
            client = await broker.connect()
            await client.send(framed(b"produce"))
            await broker.service.until(lambda: len(broker.service.slots) == 1)
            stopping = asyncio.create_task(broker.server.stop(drain_ms=TIMEOUT_S * 1_000))
            await broker.service.until(lambda: broker.service.closed_count == 1)
            # Data sent to a closed socket causes a reset, which the next call would report.
            for _ in range(2):
                await client.send(framed(b"more"))
            assert await client.receive(100) == framed(b"produce")
            client.socket.close()
            await asyncio.wait_for(stopping, TIMEOUT_S)
            assert len(broker.service.slots) == 1

    asyncio.run(run())


def test_stop_closes_connections_that_are_not_answered_in_time() -> None:
    async def run() -> None:
        async with running(behave=keep_waiting) as broker:
            client = await broker.connect()
            await client.send(framed(b"wait"))
            await broker.service.until(lambda: len(broker.service.slots) == 1)
            await broker.server.stop(drain_ms=1)
            assert await client.sees_the_end()
            assert broker.service.closed_count == 1

    asyncio.run(run())


def test_results_of_other_threads_come_back_on_the_loop() -> None:
    loop = new_loop()
    try:
        done = loop.create_future()
        post = call_soon_from_threads(loop)
        loop.run_in_executor(None, lambda: post(lambda: done.set_result("here")))
        assert loop.run_until_complete(asyncio.wait_for(done, TIMEOUT_S)) == "here"
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _note(seen: dict[int, bool], count: int, is_crowded: Callable[[], bool]) -> None:
    seen.setdefault(count, is_crowded())


def test_loop_knows_whether_many_descriptors_are_ready() -> None:
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        loop = runner.get_loop()
        is_crowded = crowded_check(loop)
        seen: dict[int, bool] = {}
        for count in (1, 10):
            pairs = [socket.socketpair() for _ in range(count)]
            for ours, theirs in pairs:
                theirs.send(b"x")
                loop.add_reader(ours, partial(_note, seen, count, is_crowded))
            runner.run(asyncio.sleep(0))
            for ours, theirs in pairs:
                loop.remove_reader(ours)
                ours.close()
                theirs.close()
    assert seen == {1: False, 10: True}


def test_other_loop_is_never_crowded() -> None:
    assert not crowded_check(SteppedLoop())()


_OUT_OF_DESCRIPTORS = """
import asyncio, os, resource, socket
from tests.unit.network.real_sockets import Client, running

async def run():
    async with running() as broker:
        first = await broker.connect()
        assert await first.ask(b"1") == b"1"
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        taken = []
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for now_ms in (1_000, 2_000, 3_000):
            # Two descriptors for two clients, and none for the server's side of them.
            os.close(taken.pop())
            os.close(taken.pop())
            clients = [socket.socket(), socket.socket()]
            for client in clients:
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", broker.bound.port))
            assert await Client(clients[0]).sees_the_end(), "turned away"
            assert await first.ask(b"2") == b"2"
            os.close(taken.pop())
            broker.server.sweep(now_ms)
            assert await Client(clients[1]).ask(b"3") == b"3", "served, though late"
            closed_count = broker.service.closed_count
            clients[0].close()
            clients[1].close()
            await broker.service.until(lambda: broker.service.closed_count > closed_count)
            taken += [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
        for descriptor in taken:
            os.close(descriptor)
        again = await broker.connect()
        assert await again.ask(b"3") == b"3"

asyncio.run(run())
print("survived")
"""


def test_running_out_of_descriptors_is_survived() -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", _OUT_OF_DESCRIPTORS],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S * 2,
        check=False,
    )
    assert outcome.stdout == "survived\n", outcome.stderr
