"""A small document from another server or a file: what is published, or given out on request.

    place = web_place("https://login.example.org/keys", "sasl.oauthbearer.jwks.endpoint.url")
    fetch(place, timeout_s=10.0)

It blocks, so it is for a thread (see `background_calls`). What a reader would get wrong: the
time limit is one for all of it, since a server that sends a byte now and then would otherwise hold
a thread for ever. A redirection is a failure, because whoever gave the address meant that one.
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
    """Where a document is. Shown without what stands behind a question mark."""

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
    """The parts of a URL, or `InvalidSetting` under the setting's name."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidSetting(f"{setting} is no URL") from None
    if parts.username is not None or parts.password is not None:
        raise InvalidSetting(f"{setting}: a URL with a name and a password would be shown in logs")
    if parts.scheme == "file" and parts.hostname in (None, "localhost") and parts.path:
        return HttpLocation(scheme="file", path=unquote(parts.path))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidSetting(f"{setting} must be a URL of https, http or file")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return HttpLocation(scheme=parts.scheme, host=parts.hostname, port=port, target=target)


def fetch(
    place: HttpLocation,
    *,
    timeout_s: float,
    connect_timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> bytes:
    """The document, by GET or with a body by POST; `NotFetched` if it does not come."""
    if place.is_file:
        return _read_file(place)
    connection = _connection(place, connect_timeout_s or timeout_s)
    try:
        return _ask(connection, place, timeout_s, dict(headers or {}), body)
    finally:
        connection.close()


def _read_file(place: HttpLocation) -> bytes:
    try:
        with Path(place.path).open("rb") as file:
            found = file.read(LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no name of a file"
        raise NotFetched(f"cannot read {place}: {reason}", may_pass=False) from error
    return _limited(found, place)


def _connection(place: HttpLocation, timeout_s: float) -> "HTTPConnection":
    # Loaded by those who need it: a broker without this starts sooner.
    from http.client import HTTPConnection, HTTPSConnection

    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    return kind(place.host, place.port, timeout=timeout_s)


def _ask(
    connection: "HTTPConnection",
    place: HttpLocation,
    timeout_s: float,
    headers: Mapping[str, str],
    body: bytes | None,
) -> bytes:
    from http.client import HTTPException

    def hang_up() -> None:
        channel = connection.sock
        if channel is not None:
            # It may have gone just now.
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
        content = _limited(response.read(LIMIT_BYTES + 1), place)
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
        # Cut off, by the other side or by the limit of time.
        raise NotFetched(f"{place} stopped in its answer", may_pass=True)


def _oauth_error(content: bytes) -> str:
    """The short word of RFC 6749 for what is wrong, and nothing longer: it may tell secrets."""
    import json

    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    word = found.get("error") if isinstance(found, dict) else None
    if not isinstance(word, str) or len(word) > _WORD_LETTERS_MAX:
        return ""
    return f" ({word})" if word.isascii() and word.replace("_", "").isalpha() else ""


def _limited(content: bytes, place: HttpLocation) -> bytes:
    if len(content) > LIMIT_BYTES:
        raise NotFetched(f"{place} has more than {LIMIT_BYTES} bytes", may_pass=False)
    return content
