"""Find schemas in the schema registry, and encode and decode with them.

Note: the registry client blocks, so schemas are looked up on a thread. What was found is cached,
and a request whose schemas are cached never leaves the event loop.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from headwater.client.errors import SerializationFailed
from headwater.client.schema_registry import (
    RegisteredSchema,
    SchemaInvalid,
    SchemaNotFound,
    SchemaRegistry,
)
from headwater.client.serialization.schema_registry_serde import MAGIC, PREFIX_BYTES, schema_id_of
from headwater.rest.formats.embedded_format import EmbeddedFormat
from headwater.rest.rest_errors import bad_request, invalid_schema, serialization_error

CACHED_MAX: Final = 1_000

T = TypeVar("T")


class SchemaCodec(Protocol):
    """Encoder and decoder of one schema; both raise `SerializationFailed`."""

    def encode(self, data: Any) -> bytes: ...

    def decode(self, raw: bytes) -> Any: ...


def _avro(registry: SchemaRegistry, schema: RegisteredSchema) -> SchemaCodec:
    from headwater.rest.formats.avro_codec import AvroCodec

    return AvroCodec(registry, schema)


def _json_schema(registry: SchemaRegistry, schema: RegisteredSchema) -> SchemaCodec:
    from headwater.rest.formats.json_schema_codec import JsonSchemaCodec

    return JsonSchemaCodec(registry, schema)


def _protobuf(registry: SchemaRegistry, schema: RegisteredSchema) -> SchemaCodec:
    from headwater.rest.formats.protobuf_codec import ProtobufCodec

    return ProtobufCodec(registry, schema)


SCHEMA_TYPES: Final = {
    EmbeddedFormat.AVRO: "AVRO",
    EmbeddedFormat.JSONSCHEMA: "JSON",
    EmbeddedFormat.PROTOBUF: "PROTOBUF",
}
"""The registry's names of the formats."""
CODECS: Final[Mapping[str, Callable[[SchemaRegistry, RegisteredSchema], SchemaCodec]]] = {
    "AVRO": _avro,
    "JSON": _json_schema,
    "PROTOBUF": _protobuf,
}
"""By the registry's schema type."""

_FORMATS: Final = {schema_type: each for each, schema_type in SCHEMA_TYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChoice:
    """How a request names the schema of its keys or values.

    Either an id, a version of the subject, or a schema; else the subject's latest version.
    """

    subject: str
    format: EmbeddedFormat | None = None
    schema_id: int | None = None
    version: int | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSchema:
    """A schema of the registry, ready for use."""

    id: int
    version: int
    subject: str
    format: EmbeddedFormat
    codec: SchemaCodec

    def encode(self, data: Any) -> bytes:
        """The record's bytes: schema id, and the data in its format."""
        return bytes((MAGIC,)) + self.id.to_bytes(4, "big") + self.codec.encode(data)


class SchemaFormats:
    """Schemas of one registry. Use it on one event loop."""

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._registry = registry
        self._found: _Cache[SchemaChoice, FoundSchema] = _Cache()
        self._codecs: _Cache[int, tuple[EmbeddedFormat, SchemaCodec]] = _Cache()

    async def find(self, choice: SchemaChoice) -> FoundSchema:
        """The chosen schema; a new one is registered. `RestProxyError` if that fails."""
        known = self._found.get(choice)
        if known is not None:
            return known
        found = await asyncio.to_thread(self._find, choice)
        # The latest version changes; schema, id and version of a subject do not.
        if choice.schema is not None or choice.schema_id is not None or choice.version is not None:
            self._found.put(choice, found)
        return found

    async def decode(self, wanted: EmbeddedFormat, raw: bytes | None) -> Any:
        """JSON data of a key or value. `SerializationFailed` if it has another format."""
        if raw is None:
            return None
        schema_id = schema_id_of(raw)
        known = self._codecs.get(schema_id)
        if known is None:
            known = await asyncio.to_thread(self._codec_of_id, schema_id)
            self._codecs.put(schema_id, known)
        found, codec = known
        if found is not wanted:
            raise SerializationFailed(f"schema {schema_id} is {found.value}, not {wanted.value}")
        return codec.decode(raw[PREFIX_BYTES:])

    def close(self) -> None:
        if self._registry is not None:
            self._registry.close()

    def _find(self, choice: SchemaChoice) -> FoundSchema:
        registry = self._needed_registry()
        try:
            stored = _stored(registry, choice)
        except SchemaInvalid as error:
            raise invalid_schema(str(error)) from error
        except SchemaNotFound as error:
            raise serialization_error(
                f"Error when fetching schema. subject = {choice.subject}: {error}"
            ) from error
        found = _format_of(stored)
        if choice.format not in (None, found):
            raise bad_request(f"schema {stored.id} is {found.value}, not {choice.format}")
        try:
            codec = CODECS[stored.schema_type](registry, stored)
        except SerializationFailed as error:
            raise invalid_schema(str(error)) from error
        assert stored.version is not None
        return FoundSchema(
            id=stored.id,
            version=stored.version,
            subject=choice.subject,
            format=found,
            codec=codec,
        )

    def _codec_of_id(self, schema_id: int) -> tuple[EmbeddedFormat, SchemaCodec]:
        registry = self._needed_registry()
        try:
            stored = registry.schema(schema_id)
        except SchemaNotFound as error:
            raise SerializationFailed(f"the registry has no schema with id {schema_id}") from error
        return _format_of(stored), CODECS[stored.schema_type](registry, stored)

    def _needed_registry(self) -> SchemaRegistry:
        if self._registry is None:
            raise bad_request(
                "This server has no schema registry: set schema.registry.url to use schemas."
            )
        return self._registry


def _stored(registry: SchemaRegistry, choice: SchemaChoice) -> RegisteredSchema:
    """The version of the subject that is chosen."""
    if choice.schema is not None:
        assert choice.format is not None
        schema_type = SCHEMA_TYPES[choice.format]
        if schema_type not in CODECS:
            raise _not_supported(schema_type)
        try:
            return registry.look_up(choice.subject, choice.schema, schema_type=schema_type)
        except SchemaNotFound:
            registry.register(choice.subject, choice.schema, schema_type=schema_type)
            return registry.look_up(choice.subject, choice.schema, schema_type=schema_type)
    if choice.schema_id is not None:
        known = registry.schema(choice.schema_id)
        # As in Confluent's proxy, the schema must be a version of the topic's subject.
        return registry.look_up(
            choice.subject, known.schema, known.references, schema_type=known.schema_type
        )
    return registry.version(choice.subject, "latest" if choice.version is None else choice.version)


def _format_of(schema: RegisteredSchema) -> EmbeddedFormat:
    if schema.schema_type not in CODECS:
        raise _not_supported(schema.schema_type)
    return _FORMATS[schema.schema_type]


def _not_supported(schema_type: str) -> Exception:
    return bad_request(f"Schema type {schema_type} is not supported.")


K = TypeVar("K")


class _Cache(OrderedDict[K, T]):
    """Keeps what was used last."""

    def get(self, key: K) -> T | None:  # type: ignore[override]
        if key not in self:
            return None
        self.move_to_end(key)
        return self[key]

    def put(self, key: K, value: T) -> None:
        self[key] = value
        while len(self) > CACHED_MAX:
            self.popitem(last=False)
