"""Cache schemas of a registry in Spark's processes, with retries.

Requests to an unavailable registry are retried a few times, then the task fails. A missing schema
is requested a second time, because another instance of the registry may lag slightly behind.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from headwater.client.schema_registry import (
    RegisteredSchema,
    RegistryResponseError,
    RegistryUnreachable,
    SchemaNotFound,
    SchemaReference,
    SchemaRegistry,
)
from headwater.client.serialization.schema_registry_settings import URL
from headwater.schemas.avro.resolved_schema import Schema, parse_schema
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.client_cache import ClientCache
from headwater.spark.formats.avro.avro_options import RegistryAccess
from headwater.spark.formats.avro.avro_reader import AvroReader

T = TypeVar("T")

_TIMEOUT_S: Final = 10.0
_PAUSES_S: Final = (0.1, 0.3, 1.0, 3.0)
_SECOND_QUESTION_S: Final = 0.5
_REFERENCES_MAX: Final = 100
_SERVER_FAULT: Final = 500
_SCHEMA: Final = "schema"


class RetryingRegistry:
    """Registry client that retries for some seconds."""

    def __init__(
        self,
        access: RegistryAccess,
        *,
        pauses_s: tuple[float, ...] = _PAUSES_S,
        timeout_s: float = _TIMEOUT_S,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._registry = SchemaRegistry(access.url, access.settings, timeout=timeout_s)
        self._pauses_s = pauses_s
        self._pause = pause

    def close(self) -> None:
        self._registry.close()

    def by_id(self, schema_id: int) -> Schema | None:
        """Return the schema, or None. Raises `UnsupportedSchema` for unsupported types."""
        if schema_id <= 0:
            return None
        try:
            return self.parsed(self._ask(lambda: self._registry.schema(schema_id)))
        except SchemaNotFound:
            self._pause(_SECOND_QUESTION_S if self._pauses_s else 0)
        try:
            return self.parsed(self._ask(lambda: self._registry.schema(schema_id)))
        except SchemaNotFound:
            return None

    def latest(self, subject: str) -> RegisteredSchema | None:
        try:
            return self._ask(lambda: self._registry.version(subject))
        except SchemaNotFound:
            return None

    def register(self, subject: str, text: str) -> int:
        return self._ask(lambda: self._registry.register(subject, text))

    def look_up(self, subject: str, text: str) -> RegisteredSchema | None:
        try:
            return self._ask(lambda: self._registry.look_up(subject, text))
        except SchemaNotFound:
            return None

    def incompatibilities(self, subject: str, text: str) -> list[str]:
        """Return incompatibilities of a schema with the versions of a subject."""
        try:
            return self._ask(lambda: self._registry.incompatibilities(subject, text))
        except SchemaNotFound:
            return []

    def parsed(self, registered: RegisteredSchema) -> Schema:
        """Return a schema with all its references."""
        if registered.schema_type != "AVRO":
            raise UnsupportedSchema(f"schema {registered.id} is {registered.schema_type}, not Avro")
        texts: list[str] = []
        self._add(registered.references, texts, set())
        return parse_schema(registered.schema, texts)

    def _add(
        self,
        references: tuple[SchemaReference, ...],
        texts: list[str],
        seen: set[tuple[str, int]],
    ) -> None:
        """Sort schemas so that each follows the ones that it refers to."""
        for each in references:
            place = (each.subject, each.version)
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > _REFERENCES_MAX:
                raise UnsupportedSchema(f"a schema refers to more than {_REFERENCES_MAX} others")
            found = self._ask(partial(self._registry.version, *place, deleted=True))
            self._add(found.references, texts, seen)
            texts.append(found.schema)

    def _ask(self, question: Callable[[], T]) -> T:
        for pause_s in self._pauses_s:
            try:
                return question()
            except RegistryUnreachable:
                self._pause(pause_s)
            except RegistryResponseError as error:
                if error.status < _SERVER_FAULT:
                    raise
                self._pause(pause_s)
        return question()


class RegistryReader(AvroReader):
    """Reads columns with writers' schemas from a registry."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        others = {name: text for name, text in settings.items() if name not in (URL, _SCHEMA)}
        self._registry = RetryingRegistry(RegistryAccess(settings[URL], others))
        super().__init__(parse_schema(settings[_SCHEMA]), self._registry.by_id)

    def close(self) -> None:
        self._registry.close()


_readers: Final = ClientCache(RegistryReader)


def cached_avro_reader(access: RegistryAccess, schema: str) -> AvroReader:
    """Return this process's reader for a reader's schema and its references."""
    return _readers.get({**access.settings, URL: access.url, _SCHEMA: schema})
