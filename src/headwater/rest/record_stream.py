"""Answer a stream of records with a stream of results, in the same order.

Records are sent while the rest of the body still arrives: one connection can stay open and produce
for hours. A slow or silent client is disconnected after `idle.timeout.ms`, any client after
`streaming.connection.max.duration.ms`.

Note: the HTTP status is 200 once the first record was read; each result has its own `error_code`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headwater.common.exceptions import HeadwaterError
from headwater.http_server.http_requests import RequestLimit
from headwater.http_server.request_guard import HEADERS
from headwater.rest.json_bodies import JsonObjects, encode_body, parse_body
from headwater.rest.media_types import JSON
from headwater.rest.rest_errors import RestProxyError, invalid_payload, rest_error_for
from headwater.rest.rest_request import RestRequest

PENDING_MAX: Final = 500
"""Records of a stream whose results are not written yet."""

_LINE_END: Final = b"\r\n"

Start = Callable[[RestRequest], Awaitable[Awaitable[Any]]]
"""Send one record; the inner awaitable is its delivery."""


class RecordStreamResponse(Response):
    """An ASGI response that reads the request while it writes."""

    def __init__(self, call: RestRequest, start: Start, streams: RequestLimit) -> None:
        super().__init__(media_type=JSON)
        self._call = call
        self._start = start
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(receive, self._call)
        try:
            with self._streams.slot():
                first = await body.next()
                if body.is_complete:
                    await self._answer_whole(first, scope, receive, send)
                else:
                    await _Stream(self._call, self._start, body, send).run(first)
        except HeadwaterError as failure:
            error = rest_error_for(failure)
            answer = encode_body({"error_code": error.error_code, "message": error.message})
            await Response(answer, error.status, HEADERS, JSON)(scope, receive, send)

    async def _answer_whole(self, raw: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a body that is here already, without tasks."""
        if not raw.strip():
            raise invalid_payload("Request body is empty. Data is required.")
        objects = JsonObjects(bytes_max=self._call.context.settings.headwater_request_max_bytes)
        pending: list[Awaitable[Any] | RestProxyError] = []
        try:
            pending += [await _started(self._start, self._call, each) for each in objects.feed(raw)]
            objects.check_end()
        except RestProxyError as error:
            if not pending:
                raise
            pending.append(error)
        lines = [await _result(each) for each in pending]
        await Response(b"".join(lines), 200, HEADERS, JSON)(scope, receive, send)


class _Body:
    """The request body, chunk by chunk, with the idle timeout."""

    def __init__(self, receive: Receive, call: RestRequest) -> None:
        settings = call.context.settings
        self._receive = receive
        self.idle_s = settings.idle_timeout_ms / 1000
        self._clock = call.context.clock
        self._end_ms = self._clock.steady_ms() + settings.streaming_connection_max_duration_ms
        self.is_complete = False

    async def next(self) -> bytes:
        left_s = (self._end_ms - self._clock.steady_ms()) / 1000
        if left_s <= 0:
            raise RestProxyError(408, "Streaming connection open for longer than allowed")
        try:
            async with asyncio.timeout(min(self.idle_s, left_s)):
                message = await self._receive()
        except TimeoutError:
            raise RestProxyError(408, "The request body did not arrive in time.") from None
        if message["type"] == "http.disconnect":
            self.is_complete = True
            return b""
        self.is_complete = not message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        return chunk


class _Stream:
    """One open stream: a task writes results while this one reads records."""

    def __init__(self, call: RestRequest, start: Start, body: _Body, send: Send) -> None:
        self._call = call
        self._start = start
        self._body = body
        self._send = send
        self._results: asyncio.Queue[Awaitable[Any] | RestProxyError | None] = asyncio.Queue(
            PENDING_MAX
        )
        self._is_gone = False

    async def run(self, first: bytes) -> None:
        await self._send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", JSON.encode()),
                    *((name.lower().encode(), text.encode()) for name, text in HEADERS.items()),
                ],
            }
        )
        writing = asyncio.create_task(self._write())
        reading = asyncio.create_task(self._read(first))
        try:
            # If the client does not read its results, the writer ends first.
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                return
            await self._results.put(None)
            await writing
        finally:
            reading.cancel()
            writing.cancel()
        if not self._is_gone:
            await self._send({"type": "http.response.body", "body": b""})

    async def _read(self, chunk: bytes) -> None:
        objects = JsonObjects(bytes_max=self._call.context.settings.headwater_request_max_bytes)
        try:
            while True:
                for each in objects.feed(chunk):
                    await self._results.put(await _started(self._start, self._call, each))
                if self._body.is_complete:
                    objects.check_end()
                    return
                chunk = await self._body.next()
        except RestProxyError as error:
            await self._results.put(error)

    async def _write(self) -> None:
        while (result := await self._results.get()) is not None:
            line = await _result(result)
            try:
                async with asyncio.timeout(self._body.idle_s):
                    await self._send(
                        {"type": "http.response.body", "body": line, "more_body": True}
                    )
            except TimeoutError:
                # uvicorn closes the connection of an incomplete response.
                self._is_gone = True
                return


async def _started(start: Start, call: RestRequest, raw: bytes) -> Awaitable[Any] | RestProxyError:
    """Send one record. Its error is a result like any other."""
    try:
        return await start(replace(call, body=parse_body(raw)))
    except HeadwaterError as error:
        return rest_error_for(error)


async def _result(pending: Awaitable[Any] | RestProxyError) -> bytes:
    if isinstance(pending, RestProxyError):
        error = pending
    else:
        try:
            return encode_body(await pending) + _LINE_END
        except HeadwaterError as failure:
            error = rest_error_for(failure)
    return encode_body({"error_code": error.error_code, "message": error.message}) + _LINE_END
