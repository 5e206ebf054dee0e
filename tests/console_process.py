"""A web console for tests: a child process on a free port, and requests as a browser sends them."""

import http.client
import json
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from headwater.common.exceptions import BrokerDidNotStart
from headwater.testing.embedded_process import EmbeddedProcess

TIMEOUT_S = 60

_READY = re.compile(r"headwater console ready on (https?://[^ ]+)")
_TOKEN = re.compile(r'name="token" value="([^"]+)"')


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ConsoleProcess(EmbeddedProcess):
    """`headwater console start` with these arguments."""

    def __init__(self, bootstrap_servers: str, *arguments: str, trusted: str | None = None) -> None:
        """`trusted` is the CA certificate file of a console with TLS."""
        super().__init__(
            name="the console",
            folder_prefix="headwater-console-",
            log_name="console.log",
            timeout_s=TIMEOUT_S,
        )
        self._trusted = trusted
        self._given = ["--bootstrap", bootstrap_servers, *arguments]
        self.url = ""
        self.ready_line = ""

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, **headers)

    def api(self, path: str) -> Any:
        """The JSON of a path that is served."""
        answer = self.get(f"/api{path}")
        assert answer.status == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        return answer.json

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        """A form with the token of a page of the console."""
        token = {"token": self.token()} if "token" not in fields else {}
        raw = urlencode({**token, **fields}).encode()
        given = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.url}
        return self.ask("POST", path, raw, **{**given, **headers})

    def post_json(self, path: str, body: Any, **headers: str) -> Answer:
        given = {"Content-Type": "application/json"}
        return self.ask("POST", f"/api{path}", json.dumps(body).encode(), **{**given, **headers})

    def token(self) -> str:
        found = _TOKEN.search(self.get("/topics").text)
        assert found is not None
        return found[1]

    def ask(self, method: str, path: str, raw: bytes | None = None, **headers: str) -> Answer:
        place = urlsplit(self.url).netloc
        connection = (
            http.client.HTTPConnection(place, timeout=TIMEOUT_S)
            if self._trusted is None
            else http.client.HTTPSConnection(
                place,
                timeout=TIMEOUT_S,
                context=ssl.create_default_context(cafile=self._trusted),
            )
        )
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, raw, named)
            response = connection.getresponse()
            kept = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, kept, response.read())
        finally:
            connection.close()

    def _arguments(self, folder: Path) -> list[str]:
        del folder
        return ["console", "start", "--listen", "127.0.0.1:0", *self._given]

    def _serves(self, line: str) -> None:
        match = _READY.match(line)
        if match is None:
            raise BrokerDidNotStart(f"the console does not say where it listens, but {line!r}")
        self.url, self.ready_line = match[1], line.strip()
