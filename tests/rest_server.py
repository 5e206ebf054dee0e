"""A REST API server for tests: a child process beside a broker, and an HTTP client."""

import http.client
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headwater.common.exceptions import BrokerDidNotStart
from headwater.common.settings.java_properties import format_properties
from headwater.testing.embedded_process import EmbeddedProcess

TIMEOUT_S = 60
V2 = "application/vnd.kafka.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
AVRO = "application/vnd.kafka.avro.v2+json"
JSONSCHEMA = "application/vnd.kafka.jsonschema.v2+json"
PROTOBUF = "application/vnd.kafka.protobuf.v2+json"

_READY = re.compile(r"headwater rest ready on (https?://[^ ]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def error_code(self) -> tuple[int, int]:
        return self.status, self.json["error_code"]


class RestServer(EmbeddedProcess):
    """A process of `headwater rest start`."""

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, str] | None = None,
        *,
        registry_url: str | None = None,
    ) -> None:
        super().__init__(
            name="the REST server",
            folder_prefix="headwater-rest-",
            log_name="rest.log",
            timeout_s=TIMEOUT_S,
        )
        self._bootstrap_servers = bootstrap_servers
        self._settings = dict(settings or {})
        self._registry_url = registry_url
        self.url = ""

    def _arguments(self, folder: Path) -> list[str]:
        file = folder / "rest.properties"
        file.write_bytes(format_properties(self._settings))
        command = ["rest", "start", "--bootstrap", self._bootstrap_servers, "--config", str(file)]
        if self._registry_url is not None:
            command += ["--registry", self._registry_url]
        return [*command, "--listen", "127.0.0.1:0"]

    def _serves(self, line: str) -> None:
        match = _READY.match(line)
        if match is None:
            raise BrokerDidNotStart(f"unexpected first line of the REST server: {line!r}")
        self.url = match[1]

    @property
    def address(self) -> str:
        return urlsplit(self.url).netloc

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str | None = None,
        accept: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; `body` is JSON or bytes."""
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = dict(headers or {})
        if raw is not None:
            default = "application/json" if path.startswith("/v3/") else V2
            sent["Content-Type"] = content_type or default
        if accept is not None:
            sent["Accept"] = accept
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, raw, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(status=response.status, headers=found, raw=response.read())
        finally:
            connection.close()

    def get(self, path: str, *, accept: str | None = None) -> Answer:
        return self.ask("GET", path, accept=accept)

    def post(self, path: str, body: Any = None, *, content_type: str | None = None) -> Answer:
        return self.ask("POST", path, body, content_type=content_type)

    @property
    def cluster(self) -> str:
        """The path of the cluster in API v3."""
        return f"/v3/clusters/{self.get('/v3/clusters').json['data'][0]['cluster_id']}"
