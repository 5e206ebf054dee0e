"""Network links that can be cut: a TCP proxy before each broker, each controller and ZooKeeper.

A broker advertises a proxy address to the other brokers, a controller is a voter with one, and a
broker reaches ZooKeeper through another one. A connection's first request has the client id of the
connecting node (`broker-2-fetch`, `raft-client-2`), so each direction of each pair is a link of its
own.

Note: a link that is held loses nothing. Bytes in flight arrive when it is released, as after an
unplugged cable, so that brokers receive outdated requests.
"""

import asyncio
import re
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")
Carry = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HOST: Final = "127.0.0.1"

_HEAD: Final = struct.Struct(">ihhih")
_CHUNK_BYTES: Final = 64 * 1024
_CALLER: Final = re.compile(rb"(?:broker|raft-client)-(\d+)")
_TIMEOUT_S: Final = 30


class Cut(Enum):
    """What a link does to bytes while it is cut."""

    HOLD = "held"
    HOLD_REQUESTS = "held one way"
    HOLD_ANSWERS = "held on the way back"
    REFUSE = "refused"


@dataclass(frozen=True, slots=True)
class Ends:
    """Source and target of a link. Nodes are numbers, ZooKeeper is None."""

    source: int
    target: int | None
    # Whether it ends at the target's controller, not at its broker.
    of_quorum: bool = False


class Link:
    """All connections from one place to another. Only for the thread of the links."""

    def __init__(self) -> None:
        self._cut: Cut | None = None
        self._forth = asyncio.Event()
        self._back = asyncio.Event()
        self._open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self.cut(None)

    def cut(self, cut: Cut | None) -> None:
        self._cut = cut
        _set(self._forth, cut not in (Cut.HOLD, Cut.HOLD_REQUESTS))
        _set(self._back, cut not in (Cut.HOLD, Cut.HOLD_ANSWERS))
        if cut is Cut.REFUSE:
            self.drop()

    def drop(self) -> None:
        """Close all connections, with everything in flight."""
        for pair in self._open.items():
            for writer in pair:
                writer.transport.abort()

    async def carry(
        self,
        first: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        port: int,
    ) -> None:
        """Connect to the port, and forward bytes until one side closes."""
        if self._cut is Cut.REFUSE:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, port)
        except OSError:
            writer.transport.abort()
            return
        self._open[writer] = far_writer
        far_writer.write(first)
        ways = [
            asyncio.create_task(_pass_on(reader, far_writer, self._forth)),
            asyncio.create_task(_pass_on(far_reader, writer, self._back)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            del self._open[writer]
            writer.transport.abort()
            far_writer.transport.abort()


class Links:
    """All links of a cluster, served by a thread. Links are created on demand."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._links: dict[Ends, Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to_node(self, target: int, port: int, *, of_quorum: bool = False) -> int:
        """Return the port at which others reach the broker or controller that listens on `port`."""

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            first = await _first_request(reader)
            match = _CALLER.search(first)
            if match is None:
                writer.transport.abort()
                return
            link = self._link(Ends(int(match[1]), target, of_quorum))
            await link.carry(first, reader, writer, port)

        return self._run(self._serve(carry))

    def to_zookeeper(self, source: int, port: int) -> int:
        """Return the port at which one broker reaches the ZooKeeper that listens on `port`."""

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._link(Ends(source, None)).carry(b"", reader, writer, port)

        return self._run(self._serve(carry))

    def cut(self, ends: Ends, cut: Cut | None) -> None:
        """Cut a link, or heal it with None."""
        self._run(self._cut(ends, cut))

    def drop(self, ends: Ends) -> None:
        self._run(self._drop(ends))

    def _link(self, ends: Ends) -> Link:
        if ends not in self._links:
            self._links[ends] = Link()
        return self._links[ends]

    async def _cut(self, ends: Ends, cut: Cut | None) -> None:
        self._link(ends).cut(cut)

    async def _drop(self, ends: Ends) -> None:
        self._link(ends).drop()

    async def _serve(self, carry: Carry) -> int:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(_until_lost(carry(reader, writer), writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(connected, HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)


async def _first_request(reader: asyncio.StreamReader) -> bytes:
    """Read as much of it as contains the client id."""
    head = await reader.readexactly(_HEAD.size)
    *_, name_bytes = _HEAD.unpack(head)
    return head + await reader.readexactly(max(0, name_bytes))


async def _until_lost(carried: Awaitable[None], writer: asyncio.StreamWriter) -> None:
    # A connection may end at any time, which is expected here.
    with suppress(OSError, asyncio.IncompleteReadError):
        await carried
    writer.transport.abort()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            await gate.wait()
            writer.write(chunk)
            await writer.drain()


def _set(gate: asyncio.Event, is_open: bool) -> None:
    if is_open:
        gate.set()
    else:
        gate.clear()
