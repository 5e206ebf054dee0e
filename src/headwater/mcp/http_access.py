"""Check host, origin, token and number of requests before the protocol does.

Note: a language model's tools on localhost are within reach of every page in a browser, as the
console is. So the checks are those of the console, and all requests have to pass all of them.
"""

import hashlib
import hmac
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from headwater.common.exceptions import InvalidSetting
from headwater.console.server import VIEWER
from headwater.http_server.basic_authentication import ROLES
from headwater.http_server.http_errors import HttpError
from headwater.http_server.http_requests import RequestLimit
from headwater.http_server.request_guard import Guard

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

REQUESTS_MAX: Final = 16
TOKEN_CHARS_MIN: Final = 16
_BEARER: Final = "bearer"
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="headwater"'}

log = logging.getLogger(__name__)


class Unauthorized(HttpError):
    """The request has no valid token."""

    def __init__(self) -> None:
        super().__init__(401, "Unauthorized: a bearer token is needed.")


class BearerToken:
    """The digest of the token that requests must carry."""

    def __init__(self, token: str) -> None:
        if len(token) < TOKEN_CHARS_MIN:
            raise InvalidSetting(f"the token must have at least {TOKEN_CHARS_MIN} characters")
        self._digest = _digest(token)

    @classmethod
    def read(cls, file: Path) -> "BearerToken":
        """Read the first line of a file, or raise `InvalidSetting`."""
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise InvalidSetting(f"cannot read the token in {file}: {reason}") from None
        return cls(lines[0].strip() if lines else "")

    def check(self, header: str | None) -> None:
        """Reject an `Authorization` header without the token."""
        scheme, _, token = (header or "").partition(" ")
        is_right = hmac.compare_digest(_digest(token.strip()), self._digest)
        if scheme.lower() != _BEARER or not is_right:
            raise Unauthorized


class HttpAccess:
    """An ASGI application that calls another one for requests that pass the checks.

    Requests of users with the role `viewer` go to an application of their own.
    """

    def __init__(
        self,
        application: "ASGIApp",
        viewer_application: "ASGIApp",
        guard: Guard,
        token: BearerToken | None = None,
    ) -> None:
        self._application = application
        self._viewer_application = viewer_application
        self._guard = guard
        self._token = token
        self._limit = RequestLimit(REQUESTS_MAX)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        try:
            self._check(Headers(scope=scope))
            is_viewer = VIEWER in scope.get(ROLES, ())
            chosen = self._viewer_application if is_viewer else self._application
            with self._limit.slot():
                await chosen(scope, receive, send)
        except HttpError as error:
            address = (scope.get("client") or ("unknown",))[0]
            log.warning("Request rejected: client=%s status=%d", address, error.status)
            headers = _CHALLENGE if isinstance(error, Unauthorized) else None
            response = JSONResponse({"error": error.message}, error.status, headers)
            await response(scope, receive, send)

    def _check(self, headers: Headers) -> None:
        self._guard.check_host(headers.get("host"))
        self._guard.check_reader(headers)
        self._guard.check_origin(headers)
        if self._token is not None:
            self._token.check(headers.get("authorization"))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
