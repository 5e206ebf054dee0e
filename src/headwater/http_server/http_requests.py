"""Requests and routes of the schema registry and the console.

Note: names in a path may contain slashes, sent as `%2F`. So a path is split before it is decoded,
and Starlette's own routing, which decodes first, is not used.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, request_response
from starlette.types import Receive, Scope, Send

from headwater.http_server.http_errors import HttpError

BODY_S_MAX: Final = 30.0


class EveryPath(BaseRoute):
    """Route all requests to one handler; Starlette's pattern stops at a line feed."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._app = request_response(answer)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request that matched a route: path parameters and query."""

    parts: Sequence[str]
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """A path; `None` is a path parameter."""

    parts: tuple[str | None, ...]

    def match(self, segments: Sequence[str]) -> list[str] | None:
        """Return the decoded path parameters; None if the path does not match."""
        if len(segments) != len(self.parts):
            return None
        found = []
        for part, segment in zip(self.parts, segments, strict=True):
            if part is None:
                found.append(unquote(segment))
            elif part != segment:
                return None
        return found


class RequestLimit:
    """Bound the number of concurrent requests."""

    def __init__(self, requests_max: int) -> None:
        self._requests_max = requests_max
        self._in_flight = 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot for one request; `HttpError` 503 if all are taken."""
        if self._in_flight >= self._requests_max:
            raise HttpError(503, "Too many concurrent requests. Try again later.")
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1


def path_parts(request: Request) -> list[str]:
    """Return the segments of a path, not decoded."""
    raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw_path.decode("latin-1").partition("?")[0].strip("/").split("/")


def content_type(request: Request) -> str:
    """The request's media type in lower case, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, *, bytes_max: int) -> bytes:
    """Read the body; `HttpError` if it is too large, too slow or incomplete.

    A slow client must not hold a request slot forever.
    """
    raw = bytearray()
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for chunk in request.stream():
                raw += chunk
                if len(raw) > bytes_max:
                    raise HttpError(413, f"The request body exceeds {bytes_max} bytes.")
    except TimeoutError:
        raise HttpError(408, "The request body did not arrive in time.") from None
    except ClientDisconnect:
        raise HttpError(400, "The connection was closed within the request body.") from None
    return bytes(raw)


def parse_json(raw: bytes) -> Any:
    """Parse a body; `HttpError` if it is not JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise HttpError(400, "The request body is not JSON.") from None
