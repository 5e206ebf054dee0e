"""What the HTTP faces share when they read a request: its path, and its body.

What a reader would get wrong: names in a path may have slashes, which clients send as `%2F`. So a
path is cut before it is decoded, and Starlette's own routing, which decodes first, is not used.
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
    """All requests go to one handler. Starlette's own pattern for that stops at a line feed."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._app = request_response(answer)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class BodyTooLarge(HeadwaterError):
    """More bytes than are taken."""


class BodyTooSlow(HeadwaterError):
    """Who sends no end holds one of the places for requests, but not for ever."""


class BodyBrokeOff(HeadwaterError):
    """The connection ended within the body."""


def path_parts(request: Request) -> list[str]:
    """The pieces of a path, not decoded yet."""
    raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw_path.decode("latin-1").partition("?")[0].strip("/").split("/")


def match_path(pattern: Sequence[str | None], given: Sequence[str]) -> list[str] | None:
    """The names in a path, decoded, where a pattern has None; None if it is another path."""
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
                    raise BodyTooLarge(f"A body has at most {bytes_max} bytes")
    except TimeoutError:
        raise BodyTooSlow("The body did not come in time") from None
    except ClientDisconnect:
        raise BodyBrokeOff("The request broke off") from None
    return bytes(raw)
