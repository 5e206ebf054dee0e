"""Cost of a connection: small requests, large frames in, file ranges out.

Note: client and server are two processes, each with its own core if possible. Otherwise only the
server's CPU time per request is meaningful.
"""

import asyncio
import os
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import BinaryIO, Final

from bench.harness import Bench, median_of_rounds
from headwater.network.acceptor import set_options
from headwater.network.endpoint import Endpoint
from headwater.network.event_loop import new_loop
from headwater.network.network_settings import NetworkSettings
from headwater.network.request_service import ResponseSlot, ServedConnection
from headwater.network.socket_server import SocketServer

ROUNDS: Final = 5
MIB: Final = 1_048_576

# A size field and four bytes.
_SHORT: Final = struct.pack(">ii", 4, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Number of requests, and the number in flight."""

    requests: int
    request_bytes: int
    answer_bytes: int
    owed: int


SMALL: Final = Exchange(requests=200_000, request_bytes=100, answer_bytes=len(_SHORT), owed=1_000)
ALONE: Final = Exchange(requests=20_000, request_bytes=100, answer_bytes=len(_SHORT), owed=1)
LARGE: Final = Exchange(requests=1_500, request_bytes=MIB, answer_bytes=len(_SHORT), owed=100)
FILES: Final = Exchange(requests=3_000, request_bytes=100, answer_bytes=len(_SHORT) + MIB, owed=4)


def measure(bench: Bench) -> None:
    _measure_small(bench)
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(MIB))
        file.flush()
        _compare(bench, "1 MiB frames", LARGE, "a bare recv_into loop", None)
        _compare(bench, "1 MiB ranges of a file", FILES, "a bare sendfile loop", file)


def _measure_small(bench: Bench) -> None:
    cpu_seconds: list[float] = []

    def pipelined() -> None:
        before = time.process_time()
        _serve(SMALL, None)
        cpu_seconds.append(time.process_time() - before)

    contenders = {"pipelined": pipelined, "alone": lambda: _serve(ALONE, None)}
    medians = median_of_rounds(contenders, ROUNDS)
    rate = SMALL.requests / medians["pipelined"]
    cpu_us = statistics.median(cpu_seconds) / SMALL.requests * 1e6
    bench.record("small requests, pipelined", rate, "/s", at_least=80_000)
    bench.record("small requests, one at a time", ALONE.requests / medians["alone"], "/s")
    bench.record("CPU time of the server per pipelined request", cpu_us, "µs")


def _compare(bench: Bench, name: str, exchange: Exchange, bare: str, file: BinaryIO | None) -> None:
    contenders: dict[str, Callable[[], object]] = {
        "net": lambda: _serve(exchange, file),
        "bare": lambda: serve_bare(exchange, file),
    }
    medians = median_of_rounds(contenders, ROUNDS)
    megabytes = exchange.requests * MIB / 1e6
    bench.record(bare, megabytes / medians["bare"], "MB/s")
    bench.record(name, megabytes / medians["net"], "MB/s")
    share = medians["bare"] / medians["net"]
    bench.record(f"{name}, share", share, "", compared_with=bare, at_least=0.8)


class _Range:
    """The whole file, repeatedly."""

    position = 0
    length = MIB

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()

    def fileno(self) -> int:
        return self._descriptor

    def release(self) -> None:
        pass


class _Answering:
    """Minimal request service."""

    def __init__(self, exchange: Exchange, file: BinaryIO | None, loop: asyncio.AbstractEventLoop):
        self._left = exchange.requests
        self._parts = (_SHORT,) if file is None else (_SHORT, _Range(file))
        self.done: asyncio.Future[None] = loop.create_future()

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:
        del frame
        self._left -= 1
        slot.respond(self._parts)

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        del connection
        raise error

    def closed(self, connection: ServedConnection) -> None:
        del connection
        assert self._left == 0, "the client left early"
        self.done.set_result(None)


def _serve(exchange: Exchange, file: BinaryIO | None) -> None:
    loop = new_loop()
    try:
        loop.run_until_complete(_serve_on(loop, exchange, file))
    finally:
        loop.close()


async def _serve_on(
    loop: asyncio.AbstractEventLoop, exchange: Exchange, file: BinaryIO | None
) -> None:
    service = _Answering(exchange, file, loop)
    server = SocketServer(loop, NetworkSettings(), service, now_ms=0)
    (bound,) = server.bind([Endpoint(name="PLAINTEXT", host="127.0.0.1", port=0)])
    server.start()
    client = _client(bound.port, exchange)
    await service.done
    await server.stop(drain_ms=0)
    client.join()


def serve_bare(exchange: Exchange, file: BinaryIO | None) -> None:
    """Receive and answer without parsing, limits or timeouts."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = _client(listening.getsockname()[1], exchange)
        accepted, _ = listening.accept()
        with accepted:
            set_options(accepted, NetworkSettings())
            accepted.setblocking(True)
            room = memoryview(bytearray(4 + exchange.request_bytes))
            for _ in range(exchange.requests):
                have = 0
                while have < len(room):
                    have += accepted.recv_into(room[have:])
                accepted.send(_SHORT, 0 if file is None else socket.MSG_MORE)
                sent = 0
                while file is not None and sent < MIB:
                    sent += os.sendfile(accepted.fileno(), file.fileno(), sent, MIB - sent)
            accepted.recv(1)
        client.join()


def _client(port: int, exchange: Exchange) -> BaseProcess:
    client = get_context("fork").Process(target=_ask, args=(port, exchange))
    client.start()
    return client


def _ask(port: int, exchange: Exchange) -> None:
    """Send all requests, with a bounded number in flight, and disconnect."""
    frame = struct.pack(">i", exchange.request_bytes) + bytes(exchange.request_bytes)
    at_once = min(exchange.owed, max(1, 65_536 // len(frame)))
    room = bytearray(MIB)
    left, owed_bytes = exchange.requests, 0
    with socket.create_connection(("127.0.0.1", port)) as connected:
        while left or owed_bytes:
            if left and owed_bytes <= (exchange.owed - at_once) * exchange.answer_bytes:
                now = min(left, at_once)
                connected.sendall(frame * now)
                left -= now
                owed_bytes += now * exchange.answer_bytes
            else:
                owed_bytes -= connected.recv_into(room)
