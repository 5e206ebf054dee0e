"""The console's stylesheet, script and icon.

Served as they are: no build step, and nothing is loaded from other sites.
"""

from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.responses import Response

from headwater.console.console_errors import not_found
from headwater.http_server.request_guard import HEADERS

_TYPES: Final = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class Assets:
    """Static files, read once. `version` is a hash of them and part of their URLs."""

    def __init__(self) -> None:
        self._contents = {name: (files(__name__) / name).read_bytes() for name in _TYPES}
        self.version = sha256(b"".join(self._contents.values())).hexdigest()[:12]

    def answer(self, given: list[str], known: str | None) -> Response:
        """Serve the asset of a path such as 1a2b/console.css; browsers may cache it."""
        name = given[-1] if len(given) == 2 else ""
        if name not in self._contents:
            raise not_found("No such asset.")
        headers = {
            **HEADERS,
            "ETag": f'"{self.version}"',
            "Cache-Control": "public, max-age=31536000, immutable",
        }
        if given[0] != self.version:
            # A page from before an update: serve the current asset, but do not let it be cached.
            headers["Cache-Control"] = "no-cache"
        if known == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(self._contents[name], media_type=_TYPES[name], headers=headers)
