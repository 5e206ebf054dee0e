"""Serve a worker's REST API over HTTP: guard, match, limit, answer.

Note: names of connectors may contain slashes, which clients send as `%2F`; see
`headwater.http_server.http_requests`.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from headwater.client.errors import KafkaError
from headwater.connect.runtime.connect_errors import ConnectRestError, bad_request
from headwater.connect.runtime.rest.routes import ConnectAnswer, ConnectRequest, ConnectRoute
from headwater.connect.runtime.worker import ConnectWorker
from headwater.http_server.http_errors import HttpError
from headwater.http_server.http_requests import (
    EveryPath,
    RequestLimit,
    content_type,
    parse_json,
    path_parts,
    read_body,
)
from headwater.http_server.request_guard import HEADERS, Guard

JSON: Final = "application/json"
ANSWER_S_MAX: Final = 90.0
_QUERY_FIELDS_MAX: Final = 100
_ANY_TYPES: Final = (JSON, "application/*", "*/*")
_WITH_BODY: Final = ("POST", "PUT", "PATCH")


def application(worker: ConnectWorker, routes: Sequence[ConnectRoute], guard: Guard) -> Starlette:
    """Build the ASGI application of a worker."""
    server = _Server(worker, routes, guard)
    return Starlette(
        routes=[EveryPath(server.answer)],
        # Starlette re-raises the exception afterwards, so that it is logged.
        exception_handlers={Exception: server.answer_exception},
    )


class _Server:
    def __init__(self, worker: ConnectWorker, routes: Sequence[ConnectRoute], guard: Guard) -> None:
        self._worker = worker
        self._routes = routes
        self._guard = guard
        self._limit = RequestLimit(worker.settings.headwater_requests_max)

    async def answer(self, request: Request) -> Response:
        try:
            self._check_source(request)
            with self._limit.slot():
                async with asyncio.timeout(ANSWER_S_MAX):
                    found = await self._answered(request)
        except HttpError as error:
            return _error_response(error.status, error.message)
        except KafkaError as error:
            return _error_response(500, str(error))
        except TimeoutError:
            return _error_response(500, "Request timed out")
        answer = found if isinstance(found, ConnectAnswer) else ConnectAnswer(body=found)
        return _response(answer)

    async def answer_exception(self, _request: Request, _error: Exception) -> Response:
        """Answer unexpected exceptions with status 500, without details."""
        return _error_response(500, "Internal Server Error")

    def _check_source(self, request: Request) -> None:
        """Reject requests from pages of other sites."""
        self._guard.check_host(request.headers.get("host"))
        self._guard.check_reader(request.headers)
        if request.method not in ("GET", "HEAD"):
            self._guard.check_origin(request.headers)
        accepted = request.headers.get("accept") or JSON
        wanted = [each.partition(";")[0].strip().lower() for each in accepted.split(",")]
        if not any(each in _ANY_TYPES for each in wanted):
            raise ConnectRestError(406, "HTTP 406 Not Acceptable")

    async def _answered(self, request: Request) -> Any:
        given = path_parts(request)
        method = "GET" if request.method == "HEAD" else request.method
        for route in self._routes:
            parts = route.match(given)
            if parts is None:
                continue
            handler = route.handlers.get(method)
            if handler is None:
                raise ConnectRestError(405, "HTTP 405 Method Not Allowed")
            call = ConnectRequest(
                worker=self._worker,
                parts=parts,
                query=_query(request),
                body=await self._body(request) if method in _WITH_BODY else None,
            )
            return await handler(call)
        raise ConnectRestError(404, "HTTP 404 Not Found")

    async def _body(self, request: Request) -> Any:
        raw = await read_body(request, bytes_max=self._worker.settings.headwater_request_max_bytes)
        if not raw:
            return None
        # Browsers let other sites' pages send a body without a type, but not with this one.
        if content_type(request) != JSON:
            raise ConnectRestError(415, "HTTP 415 Unsupported Media Type")
        return parse_json(raw)


def _query(request: Request) -> dict[str, list[str]]:
    text = request.scope["query_string"].decode("latin-1")
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX)
    except ValueError:
        raise bad_request(f"At most {_QUERY_FIELDS_MAX} fields are allowed.") from None


def _error_response(status: int, message: str) -> Response:
    return _response(ConnectAnswer(body={"error_code": status, "message": message}, status=status))


def _response(answer: ConnectAnswer) -> Response:
    headers: Mapping[str, str] = {**HEADERS, **answer.headers}
    if answer.body is None:
        return Response(status_code=answer.status, headers=headers)
    content = json.dumps(answer.body, separators=(",", ":"), ensure_ascii=False)
    # JSON can contain unpaired surrogates, which UTF-8 cannot encode.
    return Response(content.encode("utf-8", "replace"), answer.status, headers, JSON)
