"""The embedded formats; encode and decode the ones without a schema.

| format     | in JSON                   | in a record                  |
|------------|---------------------------|------------------------------|
| BINARY     | base64 text               | the bytes                    |
| JSON       | any value                 | the value as JSON            |
| STRING     | text, only in v3          | the text in UTF-8            |
| AVRO       | Avro's JSON encoding      | schema id, Avro              |
| JSONSCHEMA | any value                 | schema id, the value as JSON |
| PROTOBUF   | Protobuf's JSON mapping   | schema id, Protobuf          |

null is a record without that key or value.
"""

import base64
import binascii
import json
from enum import StrEnum
from typing import Any, Final

from headwater.client.errors import SerializationFailed
from headwater.rest.rest_errors import bad_request

_SHOWN_CHARS: Final = 100


class EmbeddedFormat(StrEnum):
    """Format of keys and values."""

    BINARY = "BINARY"
    JSON = "JSON"
    STRING = "STRING"
    AVRO = "AVRO"
    JSONSCHEMA = "JSONSCHEMA"
    PROTOBUF = "PROTOBUF"

    @property
    def requires_schema(self) -> bool:
        return self not in _WITHOUT_SCHEMA


_WITHOUT_SCHEMA: Final = (EmbeddedFormat.BINARY, EmbeddedFormat.JSON, EmbeddedFormat.STRING)


def encode(embedded: EmbeddedFormat, data: Any) -> bytes | None:
    """The bytes of a record for JSON data, in a format without a schema."""
    assert not embedded.requires_schema
    if data is None:
        return None
    match embedded:
        case EmbeddedFormat.JSON:
            return to_json(data)
        case EmbeddedFormat.STRING:
            return _text(data, "a string").encode()
        case _:
            return base64_bytes(data)


def decode(embedded: EmbeddedFormat, raw: bytes | None) -> Any:
    """JSON data for the bytes of a record, in a format without a schema."""
    assert not embedded.requires_schema
    if raw is None:
        return None
    if embedded is EmbeddedFormat.BINARY:
        return base64.b64encode(raw).decode("ascii")
    try:
        return json.loads(raw, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise SerializationFailed(f"not JSON: {error}") from error


def base64_bytes(data: Any) -> bytes:
    """The bytes of a base64 text."""
    text = _text(data, "a base64 string")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(f"data={_shown(data)} is not a valid base64 string.") from None


def to_json(data: Any) -> bytes:
    """Compact JSON in UTF-8; NaN and infinity are rejected."""
    try:
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"data={_shown(data)} is not valid JSON: {error}") from None
    return text.encode()


def _text(data: Any, what: str) -> str:
    if not isinstance(data, str):
        raise bad_request(f"data={_shown(data)} is not {what}.")
    return data


def _shown(data: Any) -> str:
    text = repr(data) if not isinstance(data, str) else f'"{data}"'
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _reject_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")
