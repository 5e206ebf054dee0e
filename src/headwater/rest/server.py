"""Serve the REST API over HTTP: guard, match, limit, answer.

Invariant: all checks of the sender and all limits of HTTP are here, before a handler runs.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from headwater.client.errors import KafkaError
from headwater.common.exceptions import HeadwaterError
from headwater.http_server.http_requests import (
    EveryPath,
    RequestLimit,
    content_type,
    path_parts,
    read_body,
)
from headwater.http_server.request_guard import HEADERS, Guard
from headwater.rest.json_bodies import encode_body, parse_body
from headwater.rest.media_types import JSON, V2_ALL, V2_PLAIN, accepted, chosen_type
from headwater.rest.record_stream import RecordStreamResponse
from headwater.rest.rest_errors import RestProxyError, rest_error_for
from headwater.rest.rest_request import (
    Operation,
    RestAnswer,
    RestContext,
    RestRequest,
    RestRoute,
)

ANSWER_S_MAX: Final = 90.0
QUERY_CHARS_MAX: Final = 32_000
QUERY_FIELDS_MAX: Final = 100

_CONSUMERS: Final = "consumers"
_V3: Final = "v3"
_OPENAPI: Final = ["openapi.json"]


def application(
    context: RestContext,
    routes: Sequence[RestRoute],
    guard: Guard,
    *,
    scheme: str,
    document: Mapping[str, Any],
) -> Starlette:
    """Build the ASGI application; `document` is the OpenAPI document."""
    server = _Server(context, routes, guard, scheme=scheme, document=document)
    return Starlette(
        routes=[EveryPath(server.answer)],
        # Starlette re-raises the exception afterwards, so that it is logged.
        exception_handlers={Exception: server.answer_exception},
    )


class _Server:
    def __init__(
        self,
        context: RestContext,
        routes: Sequence[RestRoute],
        guard: Guard,
        *,
        scheme: str,
        document: Mapping[str, Any],
    ) -> None:
        self._context = context
        self._guard = guard
        self._scheme = scheme
        self._document = encode_body(document)
        self._limit = RequestLimit(context.settings.headwater_requests_max)
        self._streams = RequestLimit(context.settings.headwater_streams_max)
        self._routes: dict[tuple[int, str | None], list[RestRoute]] = {}
        for each in routes:
            self._routes.setdefault((len(each.parts), each.parts[0]), []).append(each)

    async def answer(self, request: Request) -> Response:
        given = path_parts(request)
        media_type = JSON
        try:
            self._check_source(request)
            if given == _OPENAPI and request.method in ("GET", "HEAD"):
                return _response(200, self._document, JSON)
            media_type = _answer_type(request, given)
            found = await self._within_bounds(request, given)
        except HeadwaterError as failure:
            error = rest_error_for(failure)
            body = {"error_code": error.error_code, "message": error.message}
            return _response(error.status, encode_body(body), media_type)
        if isinstance(found, Response):
            return found
        answer = found if isinstance(found, RestAnswer) else RestAnswer(body=found)
        if answer.status == 204:
            return Response(status_code=204, headers=HEADERS)
        return _response(
            answer.status, encode_body(answer.body), answer.media_type or media_type, answer.headers
        )

    async def answer_exception(self, _request: Request, _error: Exception) -> Response:
        """Answer unexpected exceptions with status 500, without details."""
        return _response(
            500, encode_body({"error_code": 500, "message": "Internal Server Error"}), JSON
        )

    def _check_source(self, request: Request) -> None:
        """Reject requests from pages of other sites."""
        self._guard.check_host(request.headers.get("host"))
        self._guard.check_reader(request.headers)
        if request.method not in ("GET", "HEAD"):
            self._guard.check_origin(request.headers)

    async def _within_bounds(self, request: Request, given: list[str]) -> Any:
        route, parts, operation = self._matched(request, given)
        if operation.is_stream:
            call = self._call(request, parts, None)
            _check_type(call, route)
            return RecordStreamResponse(call, operation.handler, self._streams)
        try:
            with self._limit.slot():
                async with asyncio.timeout(ANSWER_S_MAX):
                    body = await self._body(request, route, operation)
                    return await operation.handler(self._call(request, parts, body))
        except KafkaError:
            # Includes `KafkaTimeout`, which is also a `TimeoutError` but has a better message.
            raise
        except TimeoutError:
            raise RestProxyError(503, "The request took too long. Try again.") from None

    def _matched(
        self, request: Request, given: list[str]
    ) -> tuple[RestRoute, list[str], Operation]:
        method = "GET" if request.method == "HEAD" else request.method
        is_known = False
        for route in self._routes.get((len(given), given[0]), ()):
            parts = route.match(given)
            if parts is None:
                continue
            is_known = True
            operation = route.operations.get(method)
            if operation is not None:
                return route, parts, operation
        if is_known:
            raise RestProxyError(405, "HTTP 405 Method Not Allowed")
        raise RestProxyError(404, "HTTP 404 Not Found")

    async def _body(self, request: Request, route: RestRoute, operation: Operation) -> Any:
        if operation.body is None:
            # Read and dropped, or the connection could not be used again.
            await self._raw(request)
            return None
        raw = await self._raw(request)
        if not raw:
            if operation.is_body_optional:
                return None
            status = 400 if route.is_v3 else 422
            raise RestProxyError(status, "The request body is empty. Data is required.")
        # Browsers let other sites' pages send a body without a type, but not with one of these.
        call = self._call(request, [], None)
        _check_type(call, route)
        return parse_body(raw)

    async def _raw(self, request: Request) -> bytes:
        return await read_body(
            request, bytes_max=self._context.settings.headwater_request_max_bytes
        )

    def _call(self, request: Request, parts: Sequence[str], body: Any) -> RestRequest:
        host = request.headers.get("host", "")
        return RestRequest(
            context=self._context,
            parts=parts,
            query=_query(request),
            content_type=content_type(request),
            accepted=accepted(request.headers.get("accept")),
            base_url=self._context.settings.advertised_listeners.rstrip("/")
            or f"{self._scheme}://{host}",
            body=body,
        )


def _check_type(call: RestRequest, route: RestRoute) -> None:
    """Reject bodies of other media types."""
    known = (JSON,) if route.is_v3 else V2_ALL
    if call.content_type not in known:
        raise RestProxyError(415, "HTTP 415 Unsupported Media Type")


def _answer_type(request: Request, given: Sequence[str]) -> str:
    """The response's media type; 406 if the client accepts none of ours."""
    wanted = accepted(request.headers.get("accept"))
    if given[0] == _V3:
        offered: Sequence[str] = (JSON,)
    else:
        offered = V2_ALL if given[0] == _CONSUMERS else V2_PLAIN
    found = chosen_type(wanted, offered)
    if found is None:
        raise RestProxyError(406, "HTTP 406 Not Acceptable")
    return found


def _query(request: Request) -> dict[str, str]:
    text = request.scope["query_string"].decode("latin-1")
    if not text:
        return {}
    if len(text) > QUERY_CHARS_MAX:
        raise RestProxyError(414, "The address is too long.")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        raise RestProxyError(400, f"At most {QUERY_FIELDS_MAX} fields are allowed.") from None


def _response(
    status: int, content: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(content, status, {**HEADERS, **(headers or {})}, media_type)
