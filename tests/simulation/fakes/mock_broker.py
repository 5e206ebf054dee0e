"""A scripted broker: it answers, rejects, stalls, hangs up or sends garbage.

It uses real sockets in a thread of its own, so blocking and asyncio clients can be tested against
it.

Note: a script is consumed. Each entry is for one request of its API, in order of arrival; after the
last, requests are served normally.
"""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.api_versions_response import Feature, api_versions_responses
from headwater.protocol.codec import read, read_request, write, write_response
from headwater.protocol.headers import read_request_header, response_frame
from headwater.protocol.messages.api_versions import ApiVersionsResponse
from headwater.protocol.older_versions import Message
from headwater.protocol.send_parts import Part

TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection instead of answering, after executing the request or not."""

    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Stall:
    """Never answer it or anything after it, after executing the request or not."""

    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Garbage:
    """Answer with these bytes after a valid correlation id."""

    body: bytes = b"\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class Instead:
    """Do not execute it; answer what the function makes of the request."""

    answer: Callable[[Any], Message]


@dataclass(frozen=True, slots=True)
class Afterwards:
    """Execute it, then answer what the function makes of the normal response."""

    answer: Callable[[Any], Message]


@dataclass(slots=True)
class Late:
    """Execute it at once, but answer only when `answer` is called, on the brokers' loop.

    With a function it is not executed, and the response is what that makes of the request.
    """

    answer: Callable[[], None] = lambda: None
    instead: Callable[[Any], Message] | None = None


@dataclass(frozen=True, slots=True)
class Usual:
    """Serve normally; a placeholder."""


Fate = HangUp | Stall | Garbage | Instead | Afterwards | Late | Usual
Handler = Callable[["MockBroker", Any, int], Message | None]
T = TypeVar("T")


class MockBroker:
    """One node: a listening socket, and what happens to each request."""

    def __init__(self, node_id: int, handlers: dict[ApiKey, Handler], features: list[Feature]):
        self.node_id = node_id
        self.port = 0
        self.scripts: dict[ApiKey, deque[Fate]] = defaultdict(deque)
        self.received: list[Message] = []
        self._arrival = threading.Condition()
        self.newest: dict[ApiKey, int] = {}
        self._handlers = handlers
        self._features = features
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    def script(self, api: ApiKey, *fates: Fate) -> None:
        """Set what happens to the next requests of an API."""
        self.scripts[api].extend(fates)

    def requests(self, api: ApiKey) -> list[Any]:
        """The requests of an API so far."""
        return [message for message in list(self.received) if message.api is api]

    def await_requests(self, api: ApiKey, count: int = 1) -> None:
        """Block until this many requests of an API have arrived in total."""
        with self._arrival:
            came = self._arrival.wait_for(lambda: len(self.requests(api)) >= count, TIMEOUT_S)
        assert came, f"{count} requests of {api.name} did not come"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the socket and all connections; `start` opens them at the same port again."""
        if self._server is not None:
            # A connection that is being accepted while the server closes would leak (Python 3.11).
            for listening in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            await some_turns()
            self._server.close()
            self.hang_up()
            await self._server.wait_closed()
            self._server = None

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        is_silent = False
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = memoryview(await reader.readexactly(size))
                if is_silent:
                    continue
                match self._answer(frame, writer):
                    case HangUp():
                        return
                    case Stall():
                        is_silent = True
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.transport.abort()

    def _answer(self, frame: memoryview, writer: asyncio.StreamWriter) -> Fate:
        """Answer, or not; return what happened to the request."""
        header = read_request_header(frame)
        api = header.api.key
        if api is ApiKey.API_VERSIONS:
            self._announce(header.version, header.correlation_id, writer)
            return Usual()
        request = read_request(api, header.version, frame[header.body_position :])
        with self._arrival:
            self.received.append(request)
            self._arrival.notify_all()
        script = self.scripts[api]
        fate: Fate = script.popleft() if script else Usual()
        answer: Message | None = None
        match fate:
            case HangUp(is_done) | Stall(is_done):
                if is_done:
                    self._handlers[api](self, request, header.version)
                return fate
            case Garbage(body):
                size = (4 + len(body)).to_bytes(4, "big")
                writer.write(size + header.correlation_id.to_bytes(4, "big") + body)
                return fate
            case Instead(make):
                answer = make(request)
            case Afterwards(make):
                answer = make(self._handlers[api](self, request, header.version))
            case Late(instead=make) if make is not None:
                answer = make(request)
            case Usual() | Late():
                answer = self._handlers[api](self, request, header.version)
        if answer is not None:
            body_parts = write_response(answer, header.version)
            parts = response_frame(header.api, header.version, header.correlation_id, body_parts)
            if isinstance(fate, Late):
                fate.answer = partial(writer.write, _joined(parts))
            else:
                writer.write(_joined(parts))
        return fate

    def _announce(self, version: int, correlation_id: int, writer: asyncio.StreamWriter) -> None:
        served = [*self._handlers, ApiKey.API_VERSIONS]
        answer = api_versions_responses(served, self._features).answer(version)
        body = write_response(answer, answer.version)
        if self.newest:
            body = self._capped(answer.version, body)
        parts = response_frame(APIS[ApiKey.API_VERSIONS], answer.version, correlation_id, body)
        writer.write(_joined(parts))

    def _capped(self, version: int, body: list[Part]) -> list[Part]:
        """ApiVersions of an older broker with lower maximum versions."""
        response = read(ApiVersionsResponse, version, memoryview(_joined(body)))
        capped = tuple(
            replace(each, max_version=min(each.max_version, self.newest.get(key, 32767)))
            for each in response.api_keys
            for key in (ApiKey(each.api_key),)
        )
        return write(replace(response, api_keys=capped), version)


class BackgroundLoop:
    """A loop in a thread, for brokers that must answer while a test blocks."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def close(self) -> None:
        self.do(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    async def _end_tasks(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await some_turns()


async def some_turns() -> None:
    """Let the loop run pending callbacks."""
    for _ in range(20):
        await asyncio.sleep(0)


def _joined(parts: list[Part]) -> bytes:
    """The bytes of a message without file ranges."""
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))
