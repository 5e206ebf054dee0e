"""Avro serializers with a schema registry, in Confluent's wire format.

    registry = SchemaRegistry("http://localhost:8081")
    producer = Producer(
        bootstrap_servers="localhost:9092",
        value_serializer=AvroSerializer(registry, SCHEMA, topic="tea"),
    )
    consumer = Consumer(
        bootstrap_servers="localhost:9092", value_deserializer=AvroDeserializer(registry)
    )

Note: serializers of this library receive a value but not its topic, so the topic, from which the
default subject name derives, is an argument of the serializer.
"""

import io
import json
from collections.abc import Mapping
from typing import Any, Final

from headwater.client.errors import SerializationFailed
from headwater.client.schema_registry import RegisteredSchema, SchemaRegistry
from headwater.client.serialization.schema_registry_serde import (
    CACHED_MAX,
    PREFIX_BYTES,
    RegisteredDeserializer,
    RegisteredSerializer,
    SubjectNaming,
    record_subject,
    referred_schemas,
    schema_id_of,
    topic_record_subject,
    topic_subject,
)
from headwater.common.exceptions import InvalidSetting

try:
    import fastavro
    from fastavro.schema import SchemaParseException
    from fastavro.validation import ValidationError
except ImportError as error:
    raise InvalidSetting("fastavro is not installed: pip install 'headwater[avro]'") from error

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "SubjectNaming",
    "record_subject",
    "topic_record_subject",
    "topic_subject",
]

Schema = Any

# Raised by fastavro for values that do not match the schema and for malformed bytes.
_MISFITS: Final = (
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    IndexError,
    EOFError,
    OverflowError,
    RecursionError,
    fastavro.read.SchemaResolutionError,
    ValidationError,
)


class AvroSerializer(RegisteredSerializer[Schema]):
    """Serialize values. A callable for `key_serializer` and `value_serializer`."""

    def __call__(self, value: Any) -> bytes:
        prefix, schema = self._prepared()
        data = io.BytesIO()
        data.write(prefix)
        try:
            # schemaless_writer would write an int of 40 bits, which other readers reject.
            fastavro.validate(value, schema, raise_errors=True)
            fastavro.schemaless_writer(data, schema, value, strict_allow_default=True)
        except _MISFITS as error:
            raise SerializationFailed(f"value does not match its Avro schema: {error}") from error
        return data.getvalue()

    def _parsed(self, schema: RegisteredSchema) -> Schema:
        return parsed_schema(self._registry, schema)

    def _record_name(self, text: str | None) -> str | None:
        return _record_name(text)


class AvroDeserializer(RegisteredDeserializer[Schema]):
    """Deserialize values with the writer's schema from the registry."""

    def __init__(
        self,
        registry: SchemaRegistry,
        reader_schema: str | Mapping[str, Any] | None = None,
        *,
        cached_max: int = CACHED_MAX,
    ) -> None:
        """With a reader schema, values are resolved to it, whatever version wrote them."""
        super().__init__(registry, cached_max=cached_max)
        given = json.loads(reader_schema) if isinstance(reader_schema, str) else reader_schema
        self._reader: Schema = None if given is None else _parsed(given, {})

    def __call__(self, raw: bytes) -> Any:
        schema_id = schema_id_of(raw)
        writer = self._schema_of(schema_id)
        data = io.BytesIO(raw)
        data.seek(PREFIX_BYTES)
        try:
            value = fastavro.schemaless_reader(data, writer, self._reader)
        except _MISFITS as error:
            raise SerializationFailed(
                f"cannot deserialize value with schema {schema_id}: {error}"
            ) from error
        if data.tell() != len(raw):
            raise SerializationFailed(f"value has bytes left after schema {schema_id}")
        return value

    def _parsed(self, schema: RegisteredSchema) -> Schema:
        return parsed_schema(self._registry, schema)


def parsed_schema(registry: SchemaRegistry, schema: RegisteredSchema) -> Schema:
    """Parse a schema and its references for fastavro."""
    if schema.schema_type != "AVRO":
        raise SerializationFailed(f"schema {schema.id} has type {schema.schema_type}, not AVRO")
    names: dict[str, Any] = {}
    # Each reference once, even under two names, or its types would be defined twice.
    referred = dict.fromkeys(
        each.schema for _, each in referred_schemas(registry, schema.references)
    )
    for text in referred:
        _parsed(json.loads(text), names)
    return _parsed(json.loads(schema.schema), names)


def _parsed(schema: Any, names: dict[str, Any]) -> Schema:
    try:
        return fastavro.parse_schema(schema, named_schemas=names)
    except (SchemaParseException, *_MISFITS) as error:
        raise SerializationFailed(f"invalid Avro schema: {error}") from error


def _record_name(text: str | None) -> str | None:
    """The full name of a named schema."""
    if text is None:
        return None
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidSetting(f"an Avro schema must be JSON: {error}") from error
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return None
    name: str = given["name"]
    namespace = given.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name
