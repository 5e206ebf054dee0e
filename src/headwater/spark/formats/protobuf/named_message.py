"""A message of a schema with its imports, as text for Spark's processes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.schemas.errors import InvalidSchema, UnsupportedSchema
from headwater.schemas.protobuf.messages import first_message
from headwater.schemas.protobuf.resolution import ProtobufSchema
from headwater.schemas.protobuf.schema_reader import read_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMessage:
    schema: str
    message: str
    imports: Mapping[str, str] = field(default_factory=dict)

    def as_text(self) -> str:
        return json.dumps(
            {"schema": self.schema, "message": self.message, "imports": dict(self.imports)}
        )

    @staticmethod
    def from_text(text: str) -> "NamedMessage":
        """Raises ValueError for other text."""
        found = json.loads(text)
        return NamedMessage(
            schema=found["schema"], message=found["message"], imports=found["imports"]
        )

    def parsed(self) -> ProtobufSchema:
        """Raises `UnsupportedSchema` for a schema that is not valid."""
        try:
            return read_schema(self.schema, self.imports.items())
        except InvalidSchema as error:
            raise UnsupportedSchema(str(error)) from error


def named(schema: str, message: str | None, imports: Mapping[str, str]) -> NamedMessage:
    """A message of a schema; without a name, the first one."""
    try:
        parsed = read_schema(schema, imports.items())
        name = message or first_message(parsed)
    except InvalidSchema as error:
        raise UnsupportedSchema(str(error)) from error
    if message is not None and message not in parsed.definitions:
        raise UnsupportedSchema(f"the schema has no message {message}")
    return NamedMessage(schema=schema, message=name, imports=imports)
