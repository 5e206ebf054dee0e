"""Serve the registry over HTTP, with Confluent's paths, fields and error codes.

Note: subjects may contain slashes, which clients send as `%2F`; see
`headwater.http_server.http_requests`.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.http_server.http_errors import HttpError
from headwater.http_server.http_requests import (
    HttpRequest,
    HttpRoute,
    RequestLimit,
    content_type,
    parse_json,
    path_parts,
    read_body,
)
from headwater.http_server.request_guard import HEADERS, Guard
from headwater.registry.registry_errors import RestError, invalid_version
from headwater.registry.schema_store import SchemaStore

V1: Final = "application/vnd.schemaregistry.v1+json"
BODY_BYTES_MAX: Final = 1_000_000
REQUESTS_MAX: Final = 256

_JSON_TYPES: Final = (V1, "application/vnd.schemaregistry+json", "application/json")
_GENERIC: Final = "application/octet-stream"
_METHODS: Final = ("GET", "POST", "PUT", "DELETE")
_INT_MAX: Final = 2**31 - 1
_DIGITS_MAX: Final = 20
_ACCEPT_UNKNOWN_PROPERTIES: Final = "confluent-accept-unknown-properties"
_GUARD: Final = Guard(service="registry")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryRequest(HttpRequest):
    """A request with its body."""

    store: SchemaStore
    query: QueryParams
    body: Any
    accepts_more: bool = False
    """Whether the client accepts responses with properties unknown to older clients."""

    def is_set(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    @property
    def json_object(self) -> dict[str, Any]:
        if not isinstance(self.body, dict):
            raise RestError(422, "The request needs a JSON object as its body")
        return self.body

    def version(self, text: str) -> int:
        """Parse a version number; -1 for the latest."""
        stripped = text.strip()
        if stripped.lower() in ("latest", "-1"):
            return -1
        number = read_number(stripped)
        if not number:
            raise invalid_version(text)
        return number

    def page(self, found: Sequence[Any]) -> Sequence[Any]:
        """The slice of a list that `offset` and `limit` request."""
        first = self._number("offset", 0)
        limit = self._number("limit", -1)
        return found[first:] if limit < 1 else found[first : first + limit]

    def _number(self, name: str, default: int) -> int:
        text = self.query.get(name)
        if text is None:
            return default
        try:
            return max(int(text), -1) if name == "limit" else max(int(text), 0)
        except ValueError:
            raise RestError(404, "HTTP 404 Not Found") from None


def read_number(text: str) -> int | None:
    """Parse a number up to 2^31-1; None if it is none."""
    if not text.isdecimal() or len(text) > _DIGITS_MAX or int(text) > _INT_MAX:
        return None
    return int(text)


@dataclass(frozen=True, slots=True)
class Raw:
    """A response that is plain text instead of a JSON string."""

    text: str


Handler = Callable[[RegistryRequest], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class RegistryRoute(HttpRoute):
    """A path and its handlers by method."""

    handlers: dict[str, Handler]


def application(
    store: SchemaStore, paths: Sequence[RegistryRoute], guard: Guard = _GUARD
) -> Starlette:
    """Build the ASGI application for a store."""
    server = _Server(store, paths, guard)
    return Starlette(routes=[Route("/{path:path}", server.answer, methods=[*_METHODS, "HEAD"])])


class _Server:
    def __init__(self, store: SchemaStore, paths: Sequence[RegistryRoute], guard: Guard) -> None:
        self._store = store
        self._guard = guard
        self._paths = paths
        self._limit = RequestLimit(REQUESTS_MAX)

    async def answer(self, request: Request) -> Response:
        accepted = _answer_type(request.headers.get("accept"))
        media_type = accepted or V1
        try:
            self._check_source(request)
            if accepted is None:
                raise RestError(406, "HTTP 406 Not Acceptable")
            with self._limit.slot():
                answer = await self._answered(request)
            return _response(200, answer, media_type)
        except HttpError as error:
            code = error.error_code if isinstance(error, RestError) else error.status
            return _response(
                error.status, {"error_code": code, "message": error.message}, media_type
            )

    def _check_source(self, request: Request) -> None:
        """Reject requests from pages of other sites."""
        self._guard.check_host(request.headers.get("host"))
        self._guard.check_reader(request.headers)
        if request.method not in ("GET", "HEAD"):
            self._guard.check_origin(request.headers)

    async def _answered(self, request: Request) -> Any:
        given = path_parts(request)
        method = "GET" if request.method == "HEAD" else request.method
        for path in self._paths:
            parts = path.match(given)
            if parts is None:
                continue
            handler = path.handlers.get(method)
            if handler is None:
                raise RestError(405, "HTTP 405 Method Not Allowed")
            body = await _body(request) if method in ("POST", "PUT") else None
            call = RegistryRequest(
                store=self._store,
                parts=parts,
                query=request.query_params,
                body=body,
                accepts_more=request.headers.get(_ACCEPT_UNKNOWN_PROPERTIES, "").lower() == "true",
            )
            return await handler(call)
        raise RestError(404, "HTTP 404 Not Found")


def _answer_type(accepted: str | None) -> str | None:
    """The response's media type; None if the client accepts none of ours."""
    if not accepted:
        return V1
    wanted = [each.partition(";")[0].strip().lower() for each in accepted.split(",")]
    for each in _JSON_TYPES:
        if each in wanted:
            return each
    return V1 if "*/*" in wanted or "application/*" in wanted else None


async def _body(request: Request) -> Any:
    # Browsers let other sites' pages send a body without a type, but not with one of these types.
    if content_type(request) not in (*_JSON_TYPES, _GENERIC):
        raise RestError(415, "HTTP 415 Unsupported Media Type")
    raw = await read_body(request, bytes_max=BODY_BYTES_MAX)
    return parse_json(raw) if raw else None


def _response(status: int, answer: Any, media_type: str) -> Response:
    if isinstance(answer, Raw):
        content = answer.text
    else:
        content = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
    # JSON can contain unpaired surrogates, which UTF-8 cannot encode.
    return Response(content.encode("utf-8", "replace"), status, HEADERS, media_type)
