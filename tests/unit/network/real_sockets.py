"""A server on real sockets, for tests that drive the loop with futures and never sleep."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.network.endpoint import Endpoint
from headwater.network.network_settings import NetworkSettings
from headwater.network.request_service import ResponseSlot, ServedConnection
from headwater.network.socket_server import SocketServer
from headwater.network.tls.tls_endpoints import ListenerTls
from tests.simulation.labs.connection_lab import echo, framed

# Generous: it only ends a test that would otherwise hang.
TIMEOUT_S = 30


class RecordedService:
    """Answers as the test wants, and lets it wait for events."""

    def __init__(self, behave: Callable[[ResponseSlot, memoryview], None]) -> None:
        self._behave = behave
        self._changed = asyncio.Condition()
        self.slots: list[ResponseSlot] = []
        self.failures: list[Exception] = []
        self.closed_count = 0
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:
        self.slots.append(slot)
        self._behave(slot, frame)
        self._tell()

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        del connection
        self.failures.append(error)
        self._tell()

    def closed(self, connection: ServedConnection) -> None:
        del connection
        self.closed_count += 1
        self._tell()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until an event of the service makes the condition true."""
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        await asyncio.wait_for(future, TIMEOUT_S)

    def _tell(self) -> None:
        for condition, future in self._waiters:
            if not future.done() and condition():
                future.set_result(None)


class Client:
    """A plain client, on the same loop."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._loop = asyncio.get_running_loop()

    async def send(self, content: bytes) -> None:
        await asyncio.wait_for(self._loop.sock_sendall(self.socket, content), TIMEOUT_S)

    async def receive(self, count: int) -> bytes:
        """Receive so many bytes, or fewer if the stream ends."""
        received = bytearray()
        while len(received) < count:
            piece = await asyncio.wait_for(
                self._loop.sock_recv(self.socket, min(count - len(received), 1 << 20)), TIMEOUT_S
            )
            if not piece:
                break
            received += piece
        return bytes(received)

    async def ask(self, request: bytes) -> bytes:
        await self.send(framed(request))
        (size,) = struct.unpack(">i", await self.receive(4))
        return await self.receive(size)

    async def sees_the_end(self) -> bool:
        try:
            return await self.receive(1) == b""
        except ConnectionResetError:
            return True


class Running:
    """A started server with one listener, and its clients."""

    def __init__(self, server: SocketServer, service: RecordedService, bound: Endpoint) -> None:
        self.server = server
        self.service = service
        self.bound = bound
        self._clients: list[socket.socket] = []

    async def connect(self, *, receive_buffer_bytes: int | None = None) -> Client:
        family = socket.AF_INET6 if ":" in self.bound.host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        self._clients.append(made)
        if receive_buffer_bytes is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        made.setblocking(False)
        loop = asyncio.get_running_loop()
        address = (self.bound.host or "127.0.0.1", self.bound.port)
        await asyncio.wait_for(loop.sock_connect(made, address), TIMEOUT_S)
        return Client(made)

    def close_clients(self) -> None:
        for made in self._clients:
            made.close()


@asynccontextmanager
async def running(
    settings: NetworkSettings | None = None,
    behave: Callable[[ResponseSlot, memoryview], None] = echo,
    host: str = "127.0.0.1",
    tls: ListenerTls | None = None,
) -> AsyncIterator[Running]:
    service = RecordedService(behave)
    server = SocketServer(
        asyncio.get_running_loop(),
        settings or NetworkSettings(),
        service,
        now_ms=0,
        tls={} if tls is None else {"PLAINTEXT": tls},
    )
    (bound,) = server.bind([Endpoint(name="PLAINTEXT", host=host, port=0)])
    server.start()
    run = Running(server, service, bound)
    try:
        yield run
    finally:
        await server.stop(drain_ms=0)
        run.close_clients()


class OpenRange:
    """A range of a real file."""

    def __init__(self, path: Path, position: int, length: int) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self.position = position
        self.length = length
        self.release_count = 0

    def fileno(self) -> int:
        return self._descriptor

    def release(self) -> None:
        self.release_count += 1
        os.close(self._descriptor)
