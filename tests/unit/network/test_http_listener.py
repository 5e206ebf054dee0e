"""The HTTP listener, on real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from headwater.common.exceptions import CannotListen
from headwater.network.endpoint import Endpoint
from headwater.network.http_listener import (
    CONNECTIONS_MAX,
    HEAD_BYTES_MAX,
    REQUEST_TIMEOUT_MS,
    HttpListener,
    HttpResponse,
)
from tests.unit.network.real_sockets import TIMEOUT_S

LOCAL = Endpoint(name="METRICS", host="127.0.0.1", port=0)


def answering(path: str) -> HttpResponse | None:
    match path:
        case "/two":
            return HttpResponse(content_type="text/plain", pieces=iter([b"first ", b"second"]))
        case "/endless":
            return HttpResponse(content_type="text/plain", pieces=endless())
        case "/fails":
            return HttpResponse(content_type="text/plain", pieces=failing())
    return None


def endless() -> Iterator[bytes]:
    while True:
        yield b"x" * 65_536


def failing() -> Iterator[bytes]:
    yield b"so far so good"
    raise ArithmeticError("a mistake of ours")


@asynccontextmanager
async def running() -> AsyncIterator[HttpListener]:
    port = HttpListener(asyncio.get_running_loop(), LOCAL, answering, now_ms=0)
    port.start()
    try:
        yield port
    finally:
        port.close()
        assert port.connection_count == 0


async def connect(port: HttpListener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port.endpoint.port)


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError:
        return


async def ask(port: HttpListener, *pieces: bytes) -> bytes:
    """Return everything until the stream ends."""
    reader, writer = await connect(port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        # Yield, so that the pieces are not sent as one.
        await asyncio.sleep(0)
    answer = await asyncio.wait_for(reader.read(), TIMEOUT_S)
    await leave(writer)
    return answer


def test_response_is_chunked_to_its_end() -> None:
    async def run() -> bytes:
        async with running() as port:
            return await ask(port, b"GET /two?all=1 HTTP/1.1\r\nHost: here\r\n\r\n")

    head, _, body = asyncio.run(run()).partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: text/plain",
        b"Connection: close",
        b"Transfer-Encoding: chunked",
    ]
    assert body == b"6\r\nfirst \r\n6\r\nsecond\r\n0\r\n\r\n"


def test_http_1_0_client_gets_no_chunks() -> None:
    async def run() -> bytes:
        async with running() as port:
            return await ask(port, b"GET /two HTTP/1.0\r\n\r\n")

    head, _, body = asyncio.run(run()).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == b"first second"


def test_request_may_arrive_in_pieces() -> None:
    async def run() -> bytes:
        async with running() as port:
            return await ask(port, b"GET /t", b"wo HTTP/1.1\r", b"\n\r", b"\n")

    assert b"200 OK" in asyncio.run(run())


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nowhere HTTP/1.1", b"404"),
        (b"POST /two HTTP/1.1", b"404"),
        (b"GET /two HTTP/2", b"400"),
        (b"nonsense", b"400"),
        (b"GET  HTTP/1.1", b"404"),
        (b"\x00\xff\xfe", b"400"),
    ],
)
def test_other_requests_are_rejected(request_line: bytes, status: bytes) -> None:
    async def run() -> bytes:
        async with running() as port:
            return await ask(port, request_line + b"\r\n\r\n")

    assert asyncio.run(run()).split(b" ")[1] == status


def test_endless_request_head_is_cut_off() -> None:
    async def run() -> bytes:
        async with running() as port:
            return await ask(port, b"G" * HEAD_BYTES_MAX)

    assert asyncio.run(run()) == b""


def test_silent_client_is_disconnected_after_a_while() -> None:
    async def run() -> bytes:
        async with running() as port:
            reader, writer = await connect(port)
            while not port.connection_count:
                await asyncio.sleep(0)
            port.sweep(REQUEST_TIMEOUT_MS - 1)
            assert port.connection_count == 1
            port.sweep(REQUEST_TIMEOUT_MS)
            rest = await asyncio.wait_for(reader.read(), TIMEOUT_S)
            await leave(writer)
            return rest

    assert asyncio.run(run()) == b""


def test_client_that_does_not_read_is_disconnected_and_costs_no_memory() -> None:
    async def run() -> None:
        async with running() as port:
            with socket.create_connection(("127.0.0.1", port.endpoint.port)) as silent:
                silent.sendall(b"GET /endless HTTP/1.1\r\n\r\n")
                while not port.connection_count:
                    await asyncio.sleep(0)
                # Another one is served meanwhile.
                assert b"second" in await ask(port, b"GET /two HTTP/1.1\r\n\r\n")
                port.sweep(REQUEST_TIMEOUT_MS)
                assert port.connection_count == 0

    asyncio.run(run())


def test_number_of_connections_is_bounded() -> None:
    async def run() -> None:
        async with running() as port:
            idle = [await connect(port) for _ in range(CONNECTIONS_MAX)]
            while port.connection_count < CONNECTIONS_MAX:
                await asyncio.sleep(0)
            waiting = asyncio.ensure_future(ask(port, b"GET /two HTTP/1.1\r\n\r\n"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert port.connection_count == CONNECTIONS_MAX
            # The idle ones are closed, and the next sweep accepts the others.
            port.sweep(REQUEST_TIMEOUT_MS)
            port.sweep(REQUEST_TIMEOUT_MS + 1_000)
            assert b"second" in await asyncio.wait_for(waiting, TIMEOUT_S)
            for _, writer in idle:
                await leave(writer)

    asyncio.run(run())


def test_unexpected_error_closes_the_connection_before_its_last_chunk() -> None:
    reported = []

    async def run() -> bytes:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        async with running() as port:
            answer = await ask(port, b"GET /fails HTTP/1.1\r\n\r\n")
            assert b"200 OK" in await ask(port, b"GET /two HTTP/1.1\r\n\r\n")
            return answer

    answer = asyncio.run(run())
    assert b"so far so good" in answer
    assert not answer.endswith(b"0\r\n\r\n")
    assert [type(error) for error in reported] == [ArithmeticError]


def test_port_in_use_is_a_named_error() -> None:
    async def run() -> None:
        async with running() as port:
            with pytest.raises(CannotListen, match="METRICS"):
                HttpListener(asyncio.get_running_loop(), port.endpoint, answering, now_ms=0)

    asyncio.run(run())
