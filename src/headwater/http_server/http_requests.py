"""Read paths and bodies of HTTP requests.

Note: names in a path may contain slashes, sent as `%2F`. So a path is split before it is decoded,
and Starlette's own routing, which decodes first, is not used.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, request_response
from starlette.types import Receive, Scope, Send

from headwater.common.exceptions import HeadwaterError

BODY_S_MAX: Final = 30.0


class EveryPath(BaseRoute):
    """Route all requests to one handler. Starlette's own pattern for that stops at a line feed."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._app = request_response(answer)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class BodyTooLarge(HeadwaterError):
    """The body exceeds the limit."""


class BodyTooSlow(HeadwaterError):
    """The body did not arrive in time; a slow client must not hold a request slot for ever."""


class BodyBrokeOff(HeadwaterError):
    """The connection was closed before the end of the body."""


def path_parts(request: Request) -> list[str]:
    """Return the segments of a path, not decoded."""
    raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw_path.decode("latin-1").partition("?")[0].strip("/").split("/")


def match_path(pattern: Sequence[str | None], given: Sequence[str]) -> list[str] | None:
    """Return the decoded segments where the pattern has None; None if the path does not match."""
    if len(given) != len(pattern):
        return None
    found = []
    for wanted, part in zip(pattern, given, strict=True):
        if wanted is None:
            found.append(unquote(part))
        elif wanted != part:
            return None
    return found


async def read_body(request: Request, *, bytes_max: int) -> bytes:
    raw = bytearray()
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for chunk in request.stream():
                raw += chunk
                if len(raw) > bytes_max:
                    raise BodyTooLarge(f"The body exceeds {bytes_max} bytes")
    except TimeoutError:
        raise BodyTooSlow("The body did not arrive in time") from None
    except ClientDisconnect:
        raise BodyBrokeOff("The connection was closed within the body") from None
    return bytes(raw)
