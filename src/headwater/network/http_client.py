"""Blocking HTTP client: fetch a document, or keep a connection to one server.

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
from errno import EMSGSIZE
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headwater.common.exceptions import HttpFetchFailed, InvalidSetting

if TYPE_CHECKING:
    from ssl import SSLContext

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


class HttpConnection:
    """A connection to one server that is kept open between requests. Not thread-safe.

    Raises `OSError`, `TimeoutError` among them, whatever goes wrong.
    """

    def __init__(
        self,
        location: HttpLocation,
        *,
        timeout_s: float,
        connect_timeout_s: float | None = None,
        context: "SSLContext | None" = None,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        """`timeout_s` covers one whole exchange, `limit_bytes` the size of a response."""
        # Imported only where it is needed: the broker starts faster.
        from http.client import HTTPConnection, HTTPSConnection

        connect_s = connect_timeout_s or timeout_s
        self._connection = (
            HTTPSConnection(location.host, location.port, timeout=connect_s, context=context)
            if location.scheme == "https"
            else HTTPConnection(location.host, location.port, timeout=connect_s)
        )
        self._timeout_s = timeout_s
        self._limit_bytes = limit_bytes

    @property
    def address(self) -> str:
        return f"{self._connection.host}:{self._connection.port}"

    @property
    def _is_open(self) -> bool:
        return self._connection.sock is not None

    def close(self) -> None:
        self._connection.close()

    def request(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, bytes]:
        """Send a request; return the status and the body of the response.

        A connection that the server has closed is only detected when it is used, so a request on a
        reused connection is sent again.
        """
        is_reused = self._is_open
        try:
            return self._exchange(method, target, dict(headers or {}), body)
        except ConnectionError:
            self.close()
            if not is_reused:
                raise
            return self.request(method, target, headers=headers, body=body)
        except OSError:
            self.close()
            raise

    def _exchange(
        self, method: str, target: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        from http.client import HTTPException

        connection = self._connection
        has_timed_out = threading.Event()

        def hang_up() -> None:
            has_timed_out.set()
            channel = connection.sock
            if channel is not None:
                # It may have been closed just now.
                with suppress(OSError):
                    channel.shutdown(_SHUT_BOTH)

        timer = threading.Timer(self._timeout_s, hang_up)
        timer.daemon = True
        try:
            if not self._is_open:
                connection.connect()
                connection.sock.settimeout(self._timeout_s)
            timer.start()
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            content = response.read(self._limit_bytes + 1)
            if len(content) > self._limit_bytes:
                raise OSError(EMSGSIZE, f"the response has more than {self._limit_bytes} bytes")
            if response.length:
                raise OSError("the connection was closed within the response")
        except (OSError, HTTPException) as error:
            if has_timed_out.is_set():
                raise TimeoutError("timed out") from error
            if isinstance(error, OSError):
                raise
            raise OSError(str(error) or type(error).__name__) from error
        finally:
            timer.cancel()
        return response.status, content


def fetch(
    location: HttpLocation,
    *,
    timeout_s: float,
    connect_timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> bytes:
    """Fetch the document with GET, or POST with a body. Raises `HttpFetchFailed`."""
    if location.is_file:
        return _read_file(location, limit_bytes)
    connection = HttpConnection(
        location, timeout_s=timeout_s, connect_timeout_s=connect_timeout_s, limit_bytes=limit_bytes
    )
    method = "GET" if body is None else "POST"
    try:
        status, content = connection.request(method, location.target, headers=headers, body=body)
    except OSError as error:
        if error.errno == EMSGSIZE:
            raise _too_large(location, limit_bytes) from error
        reason = error.strerror or str(error) or type(error).__name__
        raise HttpFetchFailed(f"{location} does not answer: {reason}", is_retriable=True) from error
    finally:
        connection.close()
    if status != 200:
        raise HttpFetchFailed(
            f"{location} answers {status}{_oauth_error(content)}", is_retriable=status in _PASSING
        )
    return content


def _read_file(place: HttpLocation, limit_bytes: int) -> bytes:
    try:
        with Path(place.path).open("rb") as file:
            found = file.read(limit_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid file name"
        raise HttpFetchFailed(f"cannot read {place}: {reason}", is_retriable=False) from error
    if len(found) > limit_bytes:
        raise _too_large(place, limit_bytes)
    return found


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


def _too_large(place: HttpLocation, limit_bytes: int) -> HttpFetchFailed:
    return HttpFetchFailed(f"{place} has more than {limit_bytes} bytes", is_retriable=False)
