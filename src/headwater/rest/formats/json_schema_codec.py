"""Validate JSON values against a JSON Schema, with jsonschema."""

import json
from typing import Any

from headwater.client.errors import SerializationFailed
from headwater.client.json_schema import validate_value, validator_of
from headwater.client.schema_registry import RegisteredSchema, SchemaRegistry
from headwater.rest.formats.embedded_format import EmbeddedFormat, decode


class JsonSchemaCodec:
    """Encoder and decoder of one schema. Values are validated when they are encoded."""

    def __init__(self, registry: SchemaRegistry, schema: RegisteredSchema) -> None:
        self._validator = validator_of(registry, schema)

    def encode(self, data: Any) -> bytes:
        validate_value(self._validator, data, "its JSON Schema")
        try:
            text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        except (ValueError, RecursionError) as error:
            raise SerializationFailed(f"not valid JSON: {error}") from error
        return text.encode()

    def decode(self, raw: bytes) -> Any:
        return decode(EmbeddedFormat.JSON, raw)
