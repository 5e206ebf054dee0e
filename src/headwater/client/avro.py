"""Avro values with their schemas in a registry: Confluent's wire format, for both kinds of clients.

    registry = SchemaRegistry("http://localhost:8081")
    producer = Producer(
        bootstrap_servers="localhost:9092",
        value_serializer=AvroSerializer(registry, SCHEMA, topic="tea"),
    )
    consumer = Consumer(
        bootstrap_servers="localhost:9092", value_deserializer=AvroDeserializer(registry)
    )

What a reader would get wrong: a serializer of this library is given a value and not its topic, so
the topic, which most subjects are named after, is said when the serializer is made.
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
    raise InvalidSetting("fastavro is missing; pip install 'headwater[avro]' has it") from error

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "SubjectNaming",
    "record_subject",
    "topic_record_subject",
    "topic_subject",
]

Schema = Any

# What fastavro raises for values that do not fit, and for bytes that are none of the schema's.
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
    """Values to bytes. A function, as `key_serializer` and `value_serializer` want it."""

    def __call__(self, value: Any) -> bytes:
        prefix, schema = self._prepared()
        data = io.BytesIO()
        data.write(prefix)
        try:
            # The writer itself would write an int of 40 bits, which others cannot read.
            fastavro.validate(value, schema, raise_errors=True)
            fastavro.schemaless_writer(data, schema, value, strict_allow_default=True)
        except _MISFITS as error:
            raise SerializationFailed(f"the value does not fit its Avro schema: {error}") from error
        return data.getvalue()

    def _parsed(self, schema: RegisteredSchema) -> Schema:
        return parsed_schema(self._registry, schema)

    def _record_name(self, text: str | None) -> str | None:
        return _record_name(text)


class AvroDeserializer(RegisteredDeserializer[Schema]):
    """Bytes to values, with the writer's schema from the registry."""

    def __init__(
        self,
        registry: SchemaRegistry,
        reader_schema: str | Mapping[str, Any] | None = None,
        *,
        cached_max: int = CACHED_MAX,
    ) -> None:
        """With a reader's schema, values are as that says, whatever version wrote them."""
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
                f"the value cannot be read with schema {schema_id}: {error}"
            ) from error
        if data.tell() != len(raw):
            raise SerializationFailed(f"the value is longer than schema {schema_id} says")
        return value

    def _parsed(self, schema: RegisteredSchema) -> Schema:
        return parsed_schema(self._registry, schema)


def parsed_schema(registry: SchemaRegistry, schema: RegisteredSchema) -> Schema:
    """A schema as fastavro wants it, with all that it refers to."""
    if schema.schema_type != "AVRO":
        raise SerializationFailed(f"schema {schema.id} is of the type {schema.schema_type}")
    names: dict[str, Any] = {}
    # Once, also if two names lead to it, or its types would be defined twice.
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
        raise SerializationFailed(f"this is no Avro schema: {error}") from error


def _record_name(text: str | None) -> str | None:
    """The full name of a schema that has one."""
    if text is None:
        return None
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidSetting(f"an Avro schema is JSON: {error}") from error
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return None
    name: str = given["name"]
    namespace = given.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name
