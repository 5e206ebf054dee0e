"""Serve the console over HTTP: match, check, answer with HTML or JSON.

Every page's data is available as JSON under the same path with the prefix `/api`. A form is
answered with a redirect; the same change as JSON is answered with its result.

Invariant: all access checks happen here, before a handler runs. Handlers check nothing.
"""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headwater.client.errors import KafkaError
from headwater.common.exceptions import HeadwaterError
from headwater.console import request_guard
from headwater.console.actions import Done
from headwater.console.console_errors import ConsoleError, FormAnswer, bad_request, error_for
from headwater.console.context import Console, ConsoleRequest
from headwater.console.html import Html
from headwater.console.pages.frame import Frame, failure_page
from headwater.console.views.live_tail import TailRequest
from headwater.console.views.records import RawBytes
from headwater.http_server.basic_authentication import ROLES
from headwater.http_server.http_requests import (
    EveryPath,
    HttpRoute,
    RequestLimit,
    content_type,
    parse_json,
    path_parts,
    read_body,
)
from headwater.http_server.request_guard import HEADERS, Guard

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from headwater.console.assets import Assets

REQUESTS_MAX: Final = 64
ANSWER_S_MAX: Final = 45.0
BODY_BYTES_MAX: Final = 2_000_000
FIELDS_MAX: Final = 100
QUERY_CHARS_MAX: Final = 32_000

log = logging.getLogger(__name__)

API: Final = "api"
VIEWER: Final = "viewer"
"""Role of users that may only read."""
THEMES: Final = ("light", "dark")
_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"
_UNSAFE_IN_FILE_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")

Read = Callable[[ConsoleRequest], Awaitable[Any]]
Change = Callable[[ConsoleRequest], Awaitable[Done]]
View = Callable[[Any, Frame], Html]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleRoute(HttpRoute):
    """A path: its data, its page, and the change that a POST makes."""

    about: str
    read: Read | None = None
    view: View | None = None
    change: Change | None = None
    shows_forms: bool = False
    """Whether the page contains the change's form, and shows it again if the change fails."""


def application(console: Console, paths: Sequence[ConsoleRoute], assets: "Assets") -> Starlette:
    """Build the ASGI application."""
    server = _Server(console, paths, assets)
    return Starlette(
        routes=[EveryPath(server.answer)],
        # Starlette re-raises the exception afterwards, so that it is logged.
        exception_handlers={Exception: server.answer_exception},
    )


class _Server:
    def __init__(self, console: Console, paths: Sequence[ConsoleRoute], assets: "Assets") -> None:
        self._console = console
        self._paths = paths
        self._assets = assets
        self._guard = Guard(service="console", hosts=console.hosts)
        self._limit = RequestLimit(REQUESTS_MAX)

    async def answer(self, request: Request) -> Response:
        given = path_parts(request)
        is_api = given[0] == API
        try:
            self._guard.check_host(request.headers.get("host"))
            if given[0] == "assets" and request.method in ("GET", "HEAD"):
                return self._assets.answer(given[1:], request.headers.get("if-none-match"))
            if given == ["healthz"]:
                return Response("ok\n", media_type="text/plain")
            self._guard.check_reader(request.headers)
            response = await self._within_bounds(request, given[1:] if is_api else given, is_api)
        except HeadwaterError as error:
            response = self._error_response(request, error_for(error), is_api=is_api)
        response.headers.update({**HEADERS, "Cache-Control": "no-store"})
        return response

    async def answer_exception(self, request: Request, _: Exception) -> Response:
        """Answer unexpected exceptions with status 500, without details."""
        error = ConsoleError(500, "Internal error. See the console's log.")
        response = self._error_response(request, error, is_api=path_parts(request)[0] == API)
        response.headers.update({**HEADERS, "Cache-Control": "no-store"})
        return response

    async def _within_bounds(self, request: Request, given: list[str], is_api: bool) -> Response:
        try:
            with self._limit.slot():
                async with asyncio.timeout(ANSWER_S_MAX):
                    return await self._answered(request, given, is_api)
        except KafkaError:
            # Includes `KafkaTimeout`, which is also a `TimeoutError` but has a better message.
            raise
        except TimeoutError:
            raise ConsoleError(504, "The cluster did not answer in time. Try again.") from None

    async def _answered(self, request: Request, given: list[str], is_api: bool) -> Response:
        if is_api and not given:
            return _json_response(self._index())
        for path in self._paths:
            parts = path.match(given)
            if parts is None:
                continue
            if request.method in ("GET", "HEAD") and path.read is not None:
                call = self._call(request, parts)
                return await self._read(request, call, path, is_api)
            if request.method == "POST" and path.change is not None:
                return await self._change(request, parts, path, is_api)
            raise ConsoleError(405, f"Method {request.method} is not allowed here.")
        raise ConsoleError(404, "No such page.")

    def _index(self) -> list[dict[str, str]]:
        rows = []
        for path in self._paths:
            text = "/".join("{name}" if part is None else part for part in path.parts)
            for method, handler in (("GET", path.read), ("POST", path.change)):
                if handler is not None:
                    rows.append({"method": method, "path": f"/{API}/{text}", "about": path.about})
        return rows

    async def _read(
        self, request: Request, call: ConsoleRequest, path: ConsoleRoute, is_api: bool
    ) -> Response:
        assert path.read is not None
        page_data = await path.read(call)
        if isinstance(page_data, TailRequest) and is_api:
            return _TailResponse(self._console, page_data)
        if isinstance(page_data, RawBytes):
            return _download(page_data)
        if is_api:
            return _json_response(asdict(page_data))
        if path.view is None:
            raise ConsoleError(404, "This path has no page, only JSON under /api.")
        return _page(path.view(page_data, self._frame(request, call.query)), 200)

    async def _change(
        self, request: Request, parts: list[str], path: ConsoleRoute, is_api: bool
    ) -> Response:
        assert path.change is not None
        self._guard.check_origin(request.headers)
        if self._console.is_read_only:
            raise ConsoleError(
                403, "This console is read-only. Start it with --changes to allow changes."
            )
        if _is_viewer(request):
            raise ConsoleError(403, f"Users with the role {VIEWER} cannot change anything.")
        call = await self._filled_call(request, parts, is_api=is_api)
        try:
            done = await path.change(call)
        except FormAnswer as answer:
            if is_api:
                return _json_response({"answer": answer.message})
            return await self._form_again(request, call, path, answer)
        except HeadwaterError as failure:
            if is_api or not path.shows_forms:
                raise
            return await self._form_again(request, call, path, error_for(failure))
        _log_change(request, done)
        if is_api:
            return _json_response(asdict(done))
        return Response(status_code=303, headers={"Location": f"{done.where}?done={done.done}"})

    async def _form_again(
        self, request: Request, call: ConsoleRequest, path: ConsoleRoute, error: ConsoleError
    ) -> Response:
        """Show the page again with the typed values."""
        assert path.read is not None
        assert path.view is not None
        page_data = await path.read(replace(call, query={}))
        frame = replace(self._frame(request), given=call.fields)
        if isinstance(error, FormAnswer):
            frame = replace(frame, answer=error.message)
        else:
            frame = replace(frame, problem=error.message)
        return _page(path.view(page_data, frame), error.status)

    async def _filled_call(
        self, request: Request, parts: list[str], *, is_api: bool
    ) -> ConsoleRequest:
        call = self._call(request, parts)
        raw = await _body(request, is_api=is_api)
        if is_api:
            return replace(call, **_from_json(raw))
        fields = dict(_pairs(raw.decode("latin-1")))
        request_guard.check_token(fields.pop(request_guard.TOKEN_FIELD, ""), self._console.token)
        return replace(call, fields=fields)

    def _call(self, request: Request, parts: Sequence[str]) -> ConsoleRequest:
        text = request.scope["query_string"].decode("latin-1")
        if len(text) > QUERY_CHARS_MAX:
            raise ConsoleError(414, "The address is too long.")
        query = dict(_pairs(text))
        is_read_only = self._console.is_read_only or _is_viewer(request)
        return ConsoleRequest(
            console=self._console, parts=parts, query=query, fields={}, is_read_only=is_read_only
        )

    def _frame(self, request: Request, query: Mapping[str, str] | None = None) -> Frame:
        connections = self._console.connections
        return Frame(
            bootstrap=connections.bootstrap,
            token=self._console.token,
            is_read_only=self._console.is_read_only or _is_viewer(request),
            has_registry=connections.registry is not None,
            query=query or {},
            version=self._assets.version,
            theme=_theme(request),
        )

    def _error_response(self, request: Request, error: ConsoleError, *, is_api: bool) -> Response:
        if is_api:
            return _json_response({"error": error.message}, error.status)
        return _page(failure_page(error, self._frame(request)), error.status)


def _is_viewer(request: Request) -> bool:
    return VIEWER in request.scope.get(ROLES, ())


def _theme(request: Request) -> str | None:
    given = request.cookies.get("theme")
    return given if given in THEMES else None


class _TailResponse(StreamingResponse):
    """Occupies one of the live tails while the client is connected."""

    def __init__(self, console: Console, request: TailRequest) -> None:
        console.tails.acquire()
        self._tails = console.tails
        super().__init__(console.tails.events(request), media_type="text/event-stream")

    async def __call__(self, *given: Any) -> None:
        try:
            await super().__call__(*given)
        finally:
            self._tails.release()


async def _body(request: Request, *, is_api: bool) -> bytes:
    wanted = _JSON if is_api else _FORM
    if content_type(request) != wanted:
        # Also CSRF protection: forms of other sites cannot send JSON's content type.
        raise ConsoleError(415, f"The Content-Type must be {wanted}.")
    return await read_body(request, bytes_max=BODY_BYTES_MAX)


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise bad_request(f"At most {FIELDS_MAX} fields are allowed.") from None


class _Given(TypedDict):
    fields: dict[str, str]
    objects: dict[str, dict[str, str]]


def _from_json(raw: bytes) -> _Given:
    """Fields of a JSON object as strings, like those of a form."""
    given = parse_json(raw)
    if not isinstance(given, dict):
        raise bad_request("The request body must be a JSON object.")
    fields = {str(name): _text(value) for name, value in given.items() if value is not None}
    objects = {
        str(name): {key: _text(each) for key, each in value.items()}
        for name, value in given.items()
        if isinstance(value, dict)
    }
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # JSON can contain unpaired surrogates, which UTF-8 cannot encode.
        raise bad_request("The request body has invalid characters.") from None
    return {"fields": fields, "objects": objects}


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else ""
        case str():
            return value
        case int() | float():
            return str(value)
        case _:
            return json.dumps(value)


def _log_change(request: Request, done: Done) -> None:
    """Log a change. A percent-encoded path cannot inject control characters."""
    host = request.client.host if request.client else "unknown"
    path = "/".join(path_parts(request))
    log.info("Change: %s host=%s path=/%s", done.done, host, path)


def _page(page: Html, status: int) -> Response:
    return Response(page.encode("utf-8", "backslashreplace"), status, media_type="text/html")


def _download(raw: RawBytes) -> Response:
    """Send as attachment: untrusted bytes must not be rendered as a page."""
    quoted = _UNSAFE_IN_FILE_NAMES.sub("_", raw.file_name)
    disposition = f'attachment; filename="{quoted}"'
    return Response(
        raw.content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": disposition},
    )


def _json_response(answer: "DataclassInstance | object", status: int = 200) -> Response:
    # ASCII only: names that are not valid UTF-8 contain unpaired surrogates, which this escapes.
    return Response(json.dumps(answer), status, media_type=_JSON)
