"""Convert between Protobuf's JSON mapping and messages of a registered schema.

Note: requests do not name a message, so data is a message of the schema's first type. Records of
other types are decoded by the indexes that they contain.
"""

from typing import Any, Final

from headwater.client.errors import SerializationFailed
from headwater.client.protobuf import registered_classes, to_dict
from headwater.client.schema_registry import RegisteredSchema, SchemaRegistry
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf.message_indexes import decode_indexes, encode_indexes

# `headwater.client.protobuf` reports a missing protobuf; import it after that module.
from google.protobuf import json_format  # isort: skip
from google.protobuf.message import DecodeError, EncodeError  # isort: skip

_FIRST: Final = (0,)


class ProtobufCodec:
    """Encoder and decoder of one schema."""

    def __init__(self, registry: SchemaRegistry, schema: RegisteredSchema) -> None:
        self._classes = registered_classes(registry, schema)

    def encode(self, data: Any) -> bytes:
        try:
            if not isinstance(data, dict):
                raise TypeError("expected a JSON object")
            message = json_format.ParseDict(data, self._classes.at(_FIRST)())
            return encode_indexes(_FIRST) + bytes(message.SerializeToString())
        except (EncodeError, InvalidSchema, json_format.ParseError, TypeError, ValueError) as error:
            raise SerializationFailed(
                f"data does not match its Protobuf schema: {error}"
            ) from error

    def decode(self, raw: bytes) -> Any:
        try:
            indexes, position = decode_indexes(raw, 0)
            message = self._classes.at(indexes)()
            message.ParseFromString(raw[position:])
            return to_dict(message)
        except (DecodeError, InvalidSchema, ValueError) as error:
            raise SerializationFailed(f"cannot decode Protobuf: {error}") from error
