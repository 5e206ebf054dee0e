"""JSON Schema serializers with a schema registry, in Confluent's wire format.

    registry = SchemaRegistry("http://localhost:8081")
    producer = Producer(
        bootstrap_servers="localhost:9092",
        value_serializer=JsonSerializer(registry, SCHEMA, topic="tea"),
    )
    consumer = Consumer(
        bootstrap_servers="localhost:9092", value_deserializer=JsonDeserializer(registry)
    )

Note: values are JSON and can be read without their schema. The schema is used for validation, in
both directions unless `validate` is False; then jsonschema is not needed, and a deserializer does
not use the registry.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Unpack
from urllib.parse import urljoin

from headwater.client.errors import SerializationFailed
from headwater.client.schema_registry import (
    RegisteredSchema,
    SchemaReference,
    SchemaRegistry,
)
from headwater.client.serialization.schema_registry_serde import (
    CACHED_MAX,
    PREFIX_BYTES,
    RegisteredDeserializer,
    RegisteredSerializer,
    SerializerOptions,
    SubjectNaming,
    record_subject,
    referred_schemas,
    schema_id_of,
    topic_record_subject,
    topic_subject,
)
from headwater.common.exceptions import InvalidSetting

__all__ = [
    "JsonDeserializer",
    "JsonSerializer",
    "SubjectNaming",
    "record_subject",
    "topic_record_subject",
    "topic_subject",
]

Schema = str | Mapping[str, Any] | bool
Check = Any
"""A validator of jsonschema; None without validation."""

_TYPE: Final = "JSON"


class JsonSerializer(RegisteredSerializer[Check]):
    """Serialize values. A callable for `key_serializer` and `value_serializer`.

    With record name strategies, the subject uses the schema's `title`.
    """

    schema_type = _TYPE

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: Schema | None = None,
        *,
        validate: bool = True,
        **options: Unpack[SerializerOptions],
    ) -> None:
        """`options` are those of `AvroSerializer`: topic, is_key, subject and others."""
        self._validate = validate
        if validate:
            _jsonschema()
        super().__init__(registry, schema, **options)

    def __call__(self, value: Any) -> bytes:
        prefix, check = self._prepared()
        if check is not None:
            validate_value(check, value, "its JSON Schema")
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            return prefix + text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationFailed(f"cannot serialize value as JSON: {error}") from error

    def _parsed(self, schema: RegisteredSchema) -> Check:
        _expect_json(schema)
        return validator_of(self._registry, schema) if self._validate else None

    def _record_name(self, text: str | None) -> str | None:
        if text is None:
            return None
        try:
            given = json.loads(text)
        except ValueError as error:
            raise InvalidSetting(f"a JSON Schema must be JSON: {error}") from error
        title = given.get("title") if isinstance(given, dict) else None
        return title if isinstance(title, str) else None


class JsonDeserializer(RegisteredDeserializer[Check]):
    """Deserialize values and validate them against the writer's schema."""

    def __init__(
        self,
        registry: SchemaRegistry,
        reader_schema: Schema | None = None,
        *,
        references: tuple[SchemaReference, ...] = (),
        validate: bool = True,
        cached_max: int = CACHED_MAX,
    ) -> None:
        """With a reader schema, values are validated against it instead of the writer's."""
        super().__init__(registry, cached_max=cached_max)
        self._validate = validate
        if validate:
            _jsonschema()
        self._reader: Check = None
        if reader_schema is not None and validate:
            text = reader_schema if isinstance(reader_schema, str) else json.dumps(reader_schema)
            given = RegisteredSchema(id=-1, schema=text, schema_type=_TYPE, references=references)
            self._reader = validator_of(registry, given)

    def __call__(self, raw: bytes) -> Any:
        schema_id = schema_id_of(raw)
        try:
            value = json.loads(raw[PREFIX_BYTES:], parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise SerializationFailed(f"value is not JSON: {error}") from error
        if self._reader is not None:
            validate_value(self._reader, value, "the reader's schema")
        elif self._validate:
            validate_value(self._schema_of(schema_id), value, f"schema {schema_id}")
        return value

    def _parsed(self, schema: RegisteredSchema) -> Check:
        _expect_json(schema)
        return validator_of(self._registry, schema)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _expect_json(schema: RegisteredSchema) -> None:
    if schema.schema_type != _TYPE:
        raise SerializationFailed(f"schema {schema.id} has type {schema.schema_type}, not JSON")


def _jsonschema() -> Any:
    try:
        import jsonschema
    except ImportError as error:
        raise InvalidSetting(
            "jsonschema is not installed: pip install 'headwater[json]', or use validate=False"
        ) from error
    return jsonschema


def validator_of(registry: SchemaRegistry, schema: RegisteredSchema) -> Check:
    """Create a validator for a schema with its references."""
    jsonschema = _jsonschema()
    import referencing
    from referencing.jsonschema import DRAFT7

    document = _document(schema)
    base = document.get("$id", "") if isinstance(document, dict) else ""
    others: referencing.Registry[Any] = referencing.Registry()
    for name, each in referred_schemas(registry, schema.references):
        try:
            address = urljoin(str(base), name)
        except ValueError as error:
            raise SerializationFailed(f"{base!r} is not a valid $id") from error
        content = _document(each)
        resource = (
            referencing.Resource.from_contents(content, default_specification=DRAFT7)
            if isinstance(content, dict)
            else DRAFT7.create_resource(content)
        )
        others = others.with_resources([(name, resource), (address, resource)])
    kind = jsonschema.validators.validator_for(document, default=jsonschema.Draft7Validator)
    try:
        kind.check_schema(document)
    except jsonschema.SchemaError as error:
        raise SerializationFailed(f"invalid JSON Schema: {error.message}") from error
    return kind(document, registry=others)


def _document(schema: RegisteredSchema) -> Any:
    try:
        return json.loads(schema.schema)
    except ValueError as error:
        raise SerializationFailed(f"invalid JSON Schema: {error}") from error


def validate_value(check: Check, value: Any, what: str) -> None:
    """Raise `SerializationFailed` if the value does not match."""
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        error = best_match(check.iter_errors(value))
    except (Unresolvable, RecursionError, re.error) as failure:
        raise SerializationFailed(f"cannot resolve {what}: {failure}") from failure
    if error is not None:
        raise SerializationFailed(
            f"value does not match {what}: {error.json_path}: {error.message}"
        )
