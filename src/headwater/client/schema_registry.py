"""A blocking client for schema registries, Headwater's or Confluent's.

Uses only the standard library.

    with SchemaRegistry("http://localhost:8081") as registry:
        schema_id = registry.register("tea-value", '"string"')

Note: thread-safe, but with a single connection, so that threads wait for each other. Serializers
request each schema once and cache it.
"""

import base64
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from headwater.client.errors import KafkaError, KafkaTimeout
from headwater.client.serialization.schema_registry_settings import (
    URL,
    RegistrySettings,
    read_registry_settings,
)
from headwater.common.exceptions import InvalidSetting
from headwater.network.http_client import HttpConnection, HttpLocation
from headwater.network.tls.ssl_context import client_context
from headwater.network.tls.tls_channel import tls_error_reason

_V1: Final = "application/vnd.schemaregistry.v1+json"
_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024


class RegistryError(KafkaError):
    """Base class of errors of the schema registry client."""


class RegistryUnreachable(RegistryError):
    """No registry answers at any of the URLs."""


class RegistryTimeout(RegistryUnreachable, KafkaTimeout):
    """The registry did not answer before the timeout."""


class RegistryResponseError(RegistryError):
    """The registry rejected the request; `error_code` is Confluent's."""

    def __init__(self, message: str, *, status: int, error_code: int) -> None:
        super().__init__(f"{message} (error code {error_code})")
        self.status = status
        self.error_code = error_code


class SchemaNotFound(RegistryResponseError):
    """The subject, version or schema does not exist."""


class SchemaIncompatible(RegistryResponseError):
    """The schema is incompatible with earlier versions of the subject."""


class SchemaInvalid(RegistryResponseError):
    """The schema is invalid, or the registry does not support its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReference:
    """A reference in a schema: a name, and the subject and version that define it."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A registered schema. Subject and version are None if it was requested by id."""

    id: int
    schema: str
    subject: str | None = None
    version: int | None = None
    schema_type: str = "AVRO"
    references: tuple[SchemaReference, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "version": self.version,
            "id": self.id,
            "schemaType": self.schema_type,
            "references": [each.as_json() for each in self.references],
            "schema": self.schema,
        }


class SchemaRegistry:
    """Client for a registry with one URL, or with several, tried in order."""

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """URLs like `http://user:password@host:port/path`, or `schema.registry.url`.

        Settings have Confluent's names: `basic.auth.user.info` is user:password,
        `ssl.ca.location` the CA file. `timeout` in seconds applies to each attempt.
        """
        chosen = read_registry_settings(settings or {})
        given = url.split(",") if isinstance(url, str) else list(url or chosen.schema_registry_url)
        if not given:
            raise InvalidSetting(f"no schema registry; set {URL}")
        self._servers = _servers([each.strip() for each in given], chosen, timeout)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            for server in self._servers:
                server.connection.close()

    # Queries.

    def subjects(self, *, prefix: str = "", deleted: bool = False) -> list[str]:
        query = {"deleted": deleted, **({"subjectPrefix": prefix} if prefix else {})}
        return list(self._call("GET", ["subjects"], query))

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        return list(self._call("GET", ["subjects", subject, "versions"], {"deleted": deleted}))

    def version(
        self, subject: str, version: int | str = "latest", *, deleted: bool = False
    ) -> RegisteredSchema:
        path = ["subjects", subject, "versions", str(version)]
        return _registered(self._call("GET", path, {"deleted": deleted}))

    def schema(self, schema_id: int) -> RegisteredSchema:
        """A schema by id."""
        answer = self._call("GET", ["schemas", "ids", str(schema_id)])
        return _registered({**answer, "id": schema_id})

    def look_up(
        self,
        subject: str,
        schema: str,
        references: Sequence[SchemaReference] = (),
        *,
        schema_type: str = "AVRO",
        normalize: bool = False,
    ) -> RegisteredSchema:
        """The version of the subject with this schema. Raises `SchemaNotFound`."""
        body = _body(schema, references, schema_type)
        return _registered(
            self._call("POST", ["subjects", subject], {"normalize": normalize}, body)
        )

    def incompatibilities(
        self,
        subject: str,
        schema: str,
        version: int | str | None = None,
        *,
        references: Sequence[SchemaReference] = (),
        schema_type: str = "AVRO",
    ) -> list[str]:
        """Why the schema is incompatible as the next version; empty if it is compatible."""
        path = ["compatibility", "subjects", subject, "versions"]
        if version is not None:
            path.append(str(version))
        answer = self._call("POST", path, {"verbose": True}, _body(schema, references, schema_type))
        if answer.get("is_compatible"):
            return []
        return list(answer.get("messages") or ["the schema is incompatible"])

    def compatibility(self, subject: str | None = None) -> str:
        """The compatibility level of a subject, or the global one."""
        path = ["config"] if subject is None else ["config", subject]
        return str(self._call("GET", path, {"defaultToGlobal": True})["compatibilityLevel"])

    # Changes.

    def register(
        self,
        subject: str,
        schema: str,
        references: Sequence[SchemaReference] = (),
        *,
        schema_type: str = "AVRO",
        normalize: bool = False,
    ) -> int:
        """Register a schema, unless it is registered already, and return its id."""
        path = ["subjects", subject, "versions"]
        body = _body(schema, references, schema_type)
        return int(self._call("POST", path, {"normalize": normalize}, body)["id"])

    def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete a subject or one version; return the deleted versions."""
        path = ["subjects", subject]
        if version is not None:
            path += ["versions", str(version)]
        answer = self._call("DELETE", path, {"permanent": permanent})
        return list(answer) if isinstance(answer, list) else [int(answer)]

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        path = ["config"] if subject is None else ["config", subject]
        self._call("PUT", path, body={"compatibility": level})

    # Transport.

    def _call(
        self,
        method: str,
        path: Sequence[str],
        query: dict[str, Any] | None = None,
        body: Any = None,
    ) -> Any:
        target = "/" + "/".join(quote(each, safe="") for each in path)
        chosen = {key: _text(value) for key, value in (query or {}).items() if value is not False}
        if chosen:
            target += f"?{urlencode(chosen)}"
        raw = None if body is None else json.dumps(body).encode()
        with self._lock:
            failures = []
            for server in self._servers:
                try:
                    return server.call(method, target, raw)
                except RegistryUnreachable as error:
                    failures.append(error)
        raise failures[0]


def _servers(urls: Sequence[str], settings: RegistrySettings, timeout: float) -> "list[_Server]":
    """A connection for each URL; `InvalidSetting` for a malformed one."""
    found = [_parts(each) for each in urls]
    login = settings.login()
    # Trust stores are read only if needed.
    context = client_context(settings) if any(each.scheme == "https" for each in found) else None
    servers = []
    for parts in found:
        location = HttpLocation(scheme=parts.scheme, host=parts.hostname or "", port=parts.port)
        connection = HttpConnection(
            location, timeout_s=timeout, context=context, limit_bytes=_ANSWER_BYTES_MAX
        )
        headers = {"Content-Type": _V1, "Accept": f"{_V1}, application/json"}
        pair = login if login is not None else _pair_in(parts)
        if pair is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        servers.append(_Server(connection, parts.path.rstrip("/"), headers))
    return servers


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidSetting(f"{_shown(url)} is not a schema registry URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidSetting(f"{_shown(url)} is not a schema registry URL such as http://host:8081")
    return parts


def _shown(url: str) -> str:
    """A URL for error messages, without the password."""
    before, at, rest = url.rpartition("@")
    return repr(f"...@{rest}" if at and before else url)


def _pair_in(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    return f"{unquote(parts.username)}:{unquote(parts.password or '')}"


class _Server:
    """One registry URL with its connection."""

    def __init__(self, connection: HttpConnection, prefix: str, headers: dict[str, str]) -> None:
        self.connection = connection
        self._prefix = prefix
        self._headers = headers

    def call(self, method: str, target: str, body: bytes | None) -> Any:
        try:
            status, raw = self.connection.request(
                method, self._prefix + target, headers=self._headers, body=body
            )
        except TimeoutError as error:
            raise RegistryTimeout(f"{self._name} does not answer before the timeout") from error
        except OSError as error:
            raise self._unreachable(error) from error
        return self._answer(status, raw)

    def _answer(self, status: int, raw: bytes) -> Any:
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        if status < 300 and answer is not None:
            return answer
        details = answer if isinstance(answer, dict) else {}
        message = str(details.get("message") or f"{self._name} answers with HTTP {status}")
        code = details.get("error_code")
        kind = {404: SchemaNotFound, 409: SchemaIncompatible, 422: SchemaInvalid}.get(
            status, RegistryResponseError
        )
        raise kind(message, status=status, error_code=code if isinstance(code, int) else status)

    @property
    def _name(self) -> str:
        return f"the schema registry at {self.connection.address}"

    def _unreachable(self, error: OSError) -> RegistryUnreachable:
        reason = tls_error_reason(error) or error.strerror or str(error)
        return RegistryUnreachable(f"{self._name} does not answer: {reason}")


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def _body(schema: str, references: Sequence[SchemaReference], schema_type: str) -> dict[str, Any]:
    named = {"references": [each.as_json() for each in references]} if references else {}
    # Old registries support only Avro and reject the field.
    typed = {} if schema_type == "AVRO" else {"schemaType": schema_type}
    return {"schema": schema, **typed, **named}


def _registered(answer: dict[str, Any]) -> RegisteredSchema:
    references = answer.get("references") or []
    return RegisteredSchema(
        id=answer["id"],
        schema=answer["schema"],
        subject=answer.get("subject"),
        version=answer.get("version"),
        schema_type=answer.get("schemaType") or "AVRO",
        references=tuple(
            SchemaReference(name=each["name"], subject=each["subject"], version=each["version"])
            for each in references
        ),
    )
