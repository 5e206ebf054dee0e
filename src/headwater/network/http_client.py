"""Fetch a small document over HTTP or from a file.

    location = http_location("https://login.example.org/keys", "sasl.oauthbearer.jwks.endpoint.url")
    fetch(location, timeout_s=10.0)

It blocks, so it is for a thread (see `background_calls`).

Note: the timeout covers the whole exchange, since a server that sends a byte now and then could
otherwise block a thread for ever. Redirects are errors, since the URL was configured explicitly.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headwater.common.exceptions import InvalidSetting, NotFetched

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

LIMIT_BYTES: Final = 1_048_576

_PASSING: Final = (408, 425, 429, 500, 502, 503, 504)
_SHUT_BOTH: Final = 2
_WORD_LETTERS_MAX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLocation:
    """Location of a document. `str` omits the query."""

    scheme: str
    host: str = ""
    port: int | None = None
    target: str = ""
    path: str = ""

    @property
    def is_file(self) -> bool:
        return self.scheme == "file"

    def __str__(self) -> str:
        if self.is_file:
            return f"file:{self.path}"
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.target.partition('?')[0]}"


def http_location(url: str, setting: str) -> HttpLocation:
    """Parse a URL, or raise `InvalidSetting` with the setting's name."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidSetting(f"{setting} is not a URL") from None
    if parts.username is not None or parts.password is not None:
        raise InvalidSetting(
            f"{setting}: a URL must not have a user and password, since it is logged"
        )
    if parts.scheme == "file" and parts.hostname in (None, "localhost") and parts.path:
        return HttpLocation(scheme="file", path=unquote(parts.path))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidSetting(f"{setting} must be an https, http or file URL")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return HttpLocation(scheme=parts.scheme, host=parts.hostname, port=port, target=target)


def fetch(
    place: HttpLocation,
    *,
    timeout_s: float,
    connect_timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> bytes:
    """Fetch the document with GET, or POST if there is a body; raises `NotFetched`."""
    if place.is_file:
        return _read_file(place, limit_bytes)
    connection = _connection(place, connect_timeout_s or timeout_s)
    try:
        return _ask(connection, place, timeout_s, dict(headers or {}), body, limit_bytes)
    finally:
        connection.close()


def _read_file(place: HttpLocation, limit_bytes: int) -> bytes:
    try:
        with Path(place.path).open("rb") as file:
            found = file.read(limit_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid file name"
        raise NotFetched(f"cannot read {place}: {reason}", may_pass=False) from error
    return _limited(found, place, limit_bytes)


def _connection(place: HttpLocation, timeout_s: float) -> "HTTPConnection":
    # Imported only where it is needed: the broker starts faster.
    from http.client import HTTPConnection, HTTPSConnection

    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    return kind(place.host, place.port, timeout=timeout_s)


def _ask(
    connection: "HTTPConnection",
    place: HttpLocation,
    timeout_s: float,
    headers: Mapping[str, str],
    body: bytes | None,
    limit_bytes: int,
) -> bytes:
    from http.client import HTTPException

    def hang_up() -> None:
        channel = connection.sock
        if channel is not None:
            # It may have been closed just now.
            with suppress(OSError):
                channel.shutdown(_SHUT_BOTH)

    limit = threading.Timer(timeout_s, hang_up)
    limit.daemon = True
    try:
        connection.connect()
        connection.sock.settimeout(timeout_s)
        limit.start()
        connection.request("GET" if body is None else "POST", place.target, body, dict(headers))
        response = connection.getresponse()
        content = _limited(response.read(limit_bytes + 1), place, limit_bytes)
        _check_status(response, place, content)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NotFetched(f"{place} does not answer: {reason}", may_pass=True) from error
    finally:
        limit.cancel()
    return content


def _check_status(response: "HTTPResponse", place: HttpLocation, content: bytes) -> None:
    if response.status != 200:
        raise NotFetched(
            f"{place} answers {response.status}{_oauth_error(content)}",
            may_pass=response.status in _PASSING,
        )
    if response.length:
        # Truncated by the server or by the timeout.
        raise NotFetched(f"{place} closed the connection within the response", may_pass=True)


def _oauth_error(content: bytes) -> str:
    """Return the RFC 6749 error code, but nothing longer, which may contain secrets."""
    import json

    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    word = found.get("error") if isinstance(found, dict) else None
    if not isinstance(word, str) or len(word) > _WORD_LETTERS_MAX:
        return ""
    return f" ({word})" if word.isascii() and word.replace("_", "").isalpha() else ""


def _limited(content: bytes, place: HttpLocation, limit_bytes: int) -> bytes:
    if len(content) > limit_bytes:
        raise NotFetched(f"{place} has more than {limit_bytes} bytes", may_pass=False)
    return content
