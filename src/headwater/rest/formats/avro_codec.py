"""Convert between Avro's JSON encoding and Avro bytes, with fastavro.

In the JSON encoding a union is null or an object with the name of the branch, such as
`{"string": "green"}`, and bytes are a text with one character per byte.
"""

import io
import json
from typing import Any, Final

from headwater.client.avro import parsed_schema
from headwater.client.errors import SerializationFailed
from headwater.client.schema_registry import RegisteredSchema, SchemaRegistry

# `headwater.client.avro` reports a missing fastavro; import it after that module.
import fastavro  # isort: skip
from fastavro.validation import ValidationError  # isort: skip

# Raised by fastavro for values that do not match the schema and for malformed bytes.
_MISFITS: Final = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    EOFError,
    ArithmeticError,
    RecursionError,
    StopIteration,
    fastavro.read.SchemaResolutionError,
    ValidationError,
)


class AvroCodec:
    """Encoder and decoder of one schema."""

    def __init__(self, registry: SchemaRegistry, schema: RegisteredSchema) -> None:
        self._schema = parsed_schema(registry, schema)

    def encode(self, data: Any) -> bytes:
        raw = io.BytesIO()
        try:
            value = next(iter(fastavro.json_reader(io.StringIO(json.dumps(data)), self._schema)))
            # schemaless_writer would write an int of 40 bits, which other readers reject.
            fastavro.validate(value, self._schema, raise_errors=True)
            fastavro.schemaless_writer(raw, self._schema, value)
        except _MISFITS as error:
            raise SerializationFailed(f"data does not match its Avro schema: {error}") from error
        return raw.getvalue()

    def decode(self, raw: bytes) -> Any:
        data = io.BytesIO(raw)
        text = io.StringIO()
        try:
            value = fastavro.schemaless_reader(data, self._schema, None)
            fastavro.json_writer(text, self._schema, [value])
            found = json.loads(text.getvalue())
        except _MISFITS as error:
            raise SerializationFailed(f"cannot decode Avro: {error}") from error
        if data.tell() != len(raw):
            raise SerializationFailed("bytes are left after the Avro value")
        return found
